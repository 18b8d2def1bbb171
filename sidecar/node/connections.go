package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/sidecar/tunnels"
)

// Kernel implements agent.Pods.
func (p *Pods) Kernel() tunnels.Kernel { return connections{p} }

// Ender implements agent.Pods.
func (p *Pods) Ender() tunnels.Ender { return connections{p} }

// connections are the kernel's, in the networks of the node's pods: who may open listeners there may look for connections there, and end them.
type connections struct{ pods *Pods }

// Find implements tunnels.Kernel.
func (c connections) Find(pod string, local, remote netip.AddrPort) (found sockdiag.Connection, err error) {
	err = c.in(pod, func() (err error) {
		found, err = sockdiag.Find(local, remote)
		return err
	})
	found.Pod = pod
	return found, err
}

// Open implements tunnels.Kernel. A pod that has ended has none.
func (c connections) Open(pods []string, each func(sockdiag.Connection)) error {
	for _, pod := range pods {
		err := c.in(pod, func() error {
			return sockdiag.Open(func(open sockdiag.Connection) {
				open.Pod = pod
				each(open)
			})
		})
		if err != nil && !errors.Is(err, sockdiag.ErrGone) {
			return fmt.Errorf("pod %s: %w", pod, err)
		}
	}
	return nil
}

// Activities implements tunnels.Kernel.
func (c connections) Activities(each func(sockdiag.Activity)) error {
	c.pods.mu.Lock()
	pods := slices.Sorted(maps.Keys(c.pods.served))
	c.pods.mu.Unlock()
	for _, pod := range pods {
		err := c.in(pod, func() error {
			return sockdiag.Activities(func(of sockdiag.Activity) {
				of.Pod = pod
				each(of)
			})
		})
		if err != nil && !errors.Is(err, sockdiag.ErrGone) {
			return fmt.Errorf("pod %s: %w", pod, err)
		}
	}
	return nil
}

// End implements tunnels.Ender.
func (c connections) End(_ context.Context, of sockdiag.Connection, beyond ...sockdiag.Connection) error {
	return c.in(of.Pod, func() error { return sockdiag.End(of, beyond...) })
}

// Can implements tunnels.Ender. It is tried in the agent's own network.
func (connections) Can(context.Context) error { return sockdiag.MayEnd() }

// in does something in a pod's network. One that is not served has no connections here.
func (c connections) in(pod string, do func() error) error {
	c.pods.mu.Lock()
	s := c.pods.served[pod]
	network := ""
	if s != nil {
		network = s.network
	}
	c.pods.mu.Unlock()
	if network == "" {
		return sockdiag.ErrGone
	}
	return inside(network, do)
}
