// Package status writes what became of Istio's objects, and of ours, into their status: whether they are accepted and why not,
// which gateway a ServiceEntry's hosts leave by, the addresses that were made up for them, and which revision of an EgressPolicy
// is in use.
//
// In: the source's judgements (Judged), and what the registry made of the objects (Update), at any time, cheaply. Out,
// while Run runs: merge patches of the status subresource, and only of objects whose status differs from what is
// wanted. Run is for the leader; whoever becomes it writes what differs from what the server holds, not everything.
//
// A write waits a moment, so that what comes together is written together; writes are limited in rate, repeated with
// growing pauses when they fail, and made against a known version of the object, so that no other writer's conditions
// are lost. What waits is a set of objects' names, so it is bounded by the objects that there are.
package status
