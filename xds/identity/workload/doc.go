// Package workload binds a proxy to the pod that it stands in: an authenticated caller may be the xDS node of a pod of
// its own service account, and is what the pod is, whatever it says of itself.
//
// In: the caller's identity, the pod that its token is bound to, what its xDS node claims, and a look-up of pods. Out: the
// pod's real labels and addresses, or a refusal that says which claim is false. It is a function of its arguments; it
// imports identity and gRPC's status only.
package workload
