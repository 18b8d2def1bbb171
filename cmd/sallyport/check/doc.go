// Package check finds what would break a mesh in a Kubernetes cluster, or let traffic go around it.
//
// In: objects as the API server or files have them, what the controllers say of their proxies, and the time. Out:
// findings in the structure and words of admission: the object, the field, the value, what is wrong, what to do. An
// error is something that is broken, or by which traffic leaves undecided and unrecorded while nothing else stops it;
// a warning is something that is about to break, or that something else still holds (a NetworkPolicy, the node guard).
//
// All of it is pure functions; Read, which asks an API server, is the exception. The package must not import the rest of
// cmd.
package check
