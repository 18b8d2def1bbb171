// Package kubelet tells the kubelet's connections to a node's pods from those of others that the node hands on, which have the same address: they come from an address of
// their own (redirect.KubeletAddresses), by which a pod's rules let them go to the app without the proxy. The kubelet has no certificate.
//
// In: the node's own network namespace, and which addresses and ports of pods the kubelet connects to. Out: a table of nftables there for each family, which is nobody
// else's (table.go, rules.go). The CNI plugin leaves that namespace for the agent, by a path.
package kubelet
