// Package watch keeps a node guard's view of the cluster up to date.
//
// In: a client's configuration and the node's name. Out: a nodeguard.View, and a sign that it changed. It watches this node's
// pods, all nodes (their pod networks and addresses), Services unless their network is given, and of namespaces the
// metadata; of each it keeps what the view says. As long as the API server cannot be asked, the view stays as it is.
//
// The rights that it needs: list and watch pods, nodes, namespaces, services. It must not import anything but package
// nodeguard of this module.
package watch
