package cluster

import (
	"context"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

// Restart ends the node without warning, and starts it again: its API server's data, its images and what its kubelet and network plugins wrote to the disk are there, pods and
// networks are not, and cables (Connect) have to be laid anew. It does not wait until anything of the cluster works.
func (c *Cluster) Restart(ctx context.Context) error {
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	if c.pid, err = node.Restart(ctx, Dir, in("init")); err != nil {
		return err
	}
	return node.Route(Network, NodeAddr)
}
