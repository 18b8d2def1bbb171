// Package verify tries the ways out of a pod for real, from where it runs: in a pod's network, on a host, or through a
// forward proxy.
//
// In: an [Env], which names whom it may talk to. Nobody else is talked to, but for the pod's own name server and the metadata
// services of clouds, and each target gets a handful of packets. Out: a [Report] with a [Result] for each thing that was
// tried: closed, open, skipped for want of a target, or not to be told, with what was seen. What is seen on a connection is
// who took it: a connection that the pod's rules led into the pod's own proxy has its other end in the same network
// namespace, where the kernel shows it (see taken.go).
//
// Each way is a file: a name, what it is about, which flag gives it a target, and a function. It knows nothing of the
// mesh's objects; which of them decided is for who has them to say (cmd/sallyport/judge). The package must not import
// anything else of this module.
package verify
