// Package node serves a node's pods that have no sidecars, by one Envoy: what the node's agent has beside a sidecar's.
//
// In: what the controller says of the node's pods and of the listeners that each gets (xds/ambient), and from the CNI plugin where a pod's
// network is. Out: listeners for Envoy, one set in each pod (listeners.go), the rules in the pod's network that lead to them
// (sidecar/redirect), a certificate and a DNS server for it. A pod is served when both sides are known (pods.go), and one that was asked for
// on the socket (socket.go) is told of when its listeners are open.
//
// Two agents of a node may run at once, when one replaces the other: handover.go says which of them holds the node.
//
// It imports nothing of the controller's.
package node
