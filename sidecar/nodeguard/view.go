package nodeguard

import "net/netip"

// View is what is known of the cluster at one time. Nothing in it has an order.
type View struct {
	Pods       []Pod                        // of this node
	Namespaces map[string]map[string]string // labels by name; a missing namespace is one not heard of yet
	Nodes      []Node                       // all of them
	Services   []netip.Addr                 // cluster addresses
}

// Pod is a pod of this node.
type Pod struct {
	Namespace, Name string
	Labels          map[string]string
	Addresses       []netip.Addr // none before its network is set up
	HostNetwork     bool         // has the node's addresses, so nothing tells its traffic from the node's
	Ended           bool         // its addresses may belong to another pod by now
}

// Owner names the pod.
func (p Pod) Owner() Owner { return Owner{Namespace: p.Namespace, Name: p.Name} }

// Node is a node of the cluster.
type Node struct {
	Name        string
	PodNetworks []netip.Prefix // Node.spec.podCIDRs; empty with plugins that keep their own ranges
	Addresses   []netip.Addr   // of type InternalIP
}

// Owner is whom an address belongs to.
type Owner struct{ Namespace, Name string }

// String is for messages: "shop/web-1".
func (o Owner) String() string { return o.Namespace + "/" + o.Name }
