package node

import (
	"context"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// A pod that has ended leaves sockets of Envoy's in its network: listeners, until Envoy has heard that they go, tunnels that rest, and connections that would be
// used again if the pod asked again. As long as there is one, the kernel keeps the network.

const (
	letGoMost = 900 * time.Millisecond // how long what has still something to send goes on, and the pod's end waits
	letGoLook = 20 * time.Millisecond  // between two looks
)

// empty ends what is open in the network of a pod that has ended: what rests when it was seen twice, the rest after a time. It returns when no listener of the mesh's and no
// connection is left there, or cannot be ended.
func (p *Pods) empty(ctx context.Context, pod string, n ns.NetNS) {
	ctx, cancel := context.WithTimeout(ctx, letGoMost)
	defer cancel()
	tick := time.NewTicker(letGoLook)
	defer tick.Stop()
	var seen map[uint64]bool
	for {
		listens, late := false, ctx.Err() != nil
		err := n.Do(func(ns.NetNS) (err error) {
			if listens, err = listensAt(redirect.AmbientOutboundPort, redirect.AmbientInboundPort, redirect.AmbientTunnelPort); err == nil {
				seen, err = sockdiag.EndResting(seen, late)
			}
			return err
		})
		if err != nil {
			p.cfg.Log.Warn("connections of a pod that has ended are not ended: its network is there until they rest for long", "pod", pod, "err", err)
			return
		}
		if late || !listens && len(seen) == 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// removeAndEmpty is Remove, which returns when nothing of the pod is held any more, or after a time: the runtime takes its network away then.
func (p *Pods) removeAndEmpty(ctx context.Context, l Local) error {
	p.mu.Lock()
	was := p.local[l.Key()]
	p.mu.Unlock()
	if l.Network == "" {
		l.Network = was.Network
	}
	n, none := ns.GetNS(l.Network)
	if none == nil {
		defer func() { _ = n.Close() }()
	}
	_, served := p.linked(l) // it is, or was
	if err := p.Remove(l); err != nil || none != nil || !served {
		return err
	}
	p.empty(ctx, l.Key(), n)
	return nil
}
