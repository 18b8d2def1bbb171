// Package cni is the CNI plugin by which a container runtime tells the node's agent of each pod, and what the two say to each other.
//
// In: a call of the runtime's, as the CNI specification says. Out: a question to the agent, which holds the pod up until it is answered (question.go); and the node's own network,
// by a path, which the agent could not find by itself (network.go).
//
// A runtime starts the plugin anew for each pod that comes or goes, so it is a program of its own that has next to nothing in it (cmd/sallyport-cni): it imports nothing of
// ours.
package cni
