package cluster

import (
	"net/netip"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

// Connect lays a cable from the node to a network namespace of the host ("outside", as a test plays it), under a
// name of 15 bytes at most. The node's end gets the addresses at, with which pods reach these networks; the other
// end, an interface named "cluster", gets the addresses there, and a route back to the pods. The cable goes when the
// namespace is deleted, or the cluster.
//
//	c.Connect("out", "sp-17-outside", []netip.Prefix{netip.MustParsePrefix("203.0.113.1/24")},
//		[]netip.Prefix{netip.MustParsePrefix("203.0.113.10/24")})
func (c *Cluster) Connect(name, namespace string, at, there []netip.Prefix) error {
	return node.Wire{Name: name, Namespace: namespace, Node: at, There: there, Pods: Network}.Lay(c.pid)
}
