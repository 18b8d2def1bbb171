// Package forward connects to ports of pods through the API server, as `kubectl port-forward` does, without opening a
// port on this machine: who else is on it reaches nothing.
//
// In: a client's configuration, and a pod. Out: a Tunnel, whose Dial gives connections to the pod's loopback. The
// tunnel is a WebSocket, or SPDY where the API server, or what is in front of it, knows no other
// (https://kep.k8s.io/4006). The right that it takes is "create" (and, before Kubernetes 1.35, "get") on
// pods/portforward.
//
// The package must not import anything else of this module.
package forward
