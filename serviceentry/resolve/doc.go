// Package resolve says what happens to what a workload sends: the model that proxies are programmed from, and that Decide
// walks.
//
// In: a registry snapshot, who asks (a workload's Sidecar, or an Exit), and a host. Out: a value that says everything there is to
// say about the host there: by which names and addresses it is found, and for each port its routes in order, each with what it
// is for, what it does and which object says so. The value is neutral: no type of Envoy's or of Kubernetes' is in it. It is also
// all that translation may read, and so the key under which what was made of it is kept.
//
// Two steps, since the first is done for every host of a view, and the second only for those that changed: SidecarHost and ExitHost
// gather what counts of the snapshot; their methods, which are functions of them alone, say what follows.
package resolve
