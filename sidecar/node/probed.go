package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"time"

	"github.com/sallyport/sallyport/sidecar/node/kubelet"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
	"github.com/sallyport/sallyport/xds/ambient"
)

// The kubelet connects to pods and has no certificate. Where the agent knows the node's own network, it has the kubelet's connections come to pods from an address of
// their own, by which pods' rules let them in (package kubelet). The CNI plugin leaves that network there with the first pod that starts on the node.

// nodesNetwork is what the agent has of the node's own network. Its owner's lock guards open; the rest is Run's alone.
type nodesNetwork struct {
	open   bool // pods' rules may let the kubelet in
	table  *kubelet.Table
	ports  []netip.AddrPort // what was said last; nil for nothing yet
	failed string           // why it could not be opened, or written, the last time
}

// lookForNetwork opens the node's network once it is there.
func (p *Pods) lookForNetwork() {
	if p.network.table != nil || p.cfg.HostNetwork == "" {
		return
	}
	table, err := kubelet.Open(p.cfg.HostNetwork, HasIPv6())
	if p.failedInNetwork(err) {
		return
	}
	p.network.table = table
	p.mu.Lock()
	p.network.open = true
	p.tell()
	p.mu.Unlock()
	p.cfg.Log.Info("the kubelet's connections to pods are told from others from now on", "network", p.cfg.HostNetwork)
}

// failedInNetwork notes an error, and says each once. That nothing is there yet is none worth saying.
func (p *Pods) failedInNetwork(err error) bool {
	said := ""
	if err != nil {
		said = err.Error()
	}
	if said != "" && said != p.network.failed && !errors.Is(err, fs.ErrNotExist) {
		p.cfg.Log.Error("the kubelet's connections to pods cannot be told from others; it is tried again", "err", err)
	}
	p.network.failed = said
	return err != nil
}

// keepProbed has the node's network say which ports of pods the kubelet connects to, of those too that are closed: they are not to be started again for that. One agent
// does, who holds the node and was told all.
func (p *Pods) keepProbed() {
	if p.network.table == nil {
		return
	}
	p.mu.Lock()
	if !p.holds || !p.may {
		p.network.ports = nil // another one writes them
		p.mu.Unlock()
		return
	}
	ports := []netip.AddrPort{}
	for key, l := range p.local {
		if r := p.remote[key]; r.In && is(l, r) {
			ports = append(ports, probedOf(r, p.served[key])...)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(ports, netip.AddrPort.Compare)
	if ports = slices.Compact(ports); p.network.ports != nil && slices.Equal(ports, p.network.ports) {
		return
	}
	var err error
	if more, only := added(p.network.ports, ports); only {
		err = p.network.table.Add(more)
	} else {
		err = p.network.table.Set(ports)
	}
	if !p.failedInNetwork(err) {
		p.network.ports = ports
	}
}

// added are the ports that came to others, both in order, and whether nothing else differs. Of nothing that was said yet nobody knows.
func added(to, ports []netip.AddrPort) (more []netip.AddrPort, only bool) {
	if to == nil {
		return nil, false
	}
	for _, p := range ports {
		if _, there := slices.BinarySearchFunc(to, p, netip.AddrPort.Compare); !there {
			more = append(more, p)
		}
	}
	return more, len(to)+len(more) == len(ports)
}

// probedOf are a pod's, at the addresses that the API server has of it: what is in its network is the pod's own word. Before it has any, the pod has not begun.
func probedOf(r ambient.Pod, s *served) (out []netip.AddrPort) {
	var addresses []netip.Addr
	if len(r.Addresses) == 0 && s != nil {
		addresses = s.addresses
	} else {
		for _, text := range r.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				addresses = append(addresses, a.Unmap())
			}
		}
	}
	for _, a := range addresses {
		for _, port := range r.Probed {
			out = append(out, netip.AddrPortFrom(a, port))
		}
	}
	return out
}

// why says why a pod is not to be served, by the controller's word and by what this agent can do; "" where it is. The lock is held.
func (p *Pods) why(r ambient.Pod) string {
	if r.Why == "" && r.Unprobed != "" && !p.network.open {
		return r.Unprobed + "; or let any other pod start on this node, by which its agent comes to know the node's network, and lets the kubelet in"
	}
	return r.Why
}

// rulesFor are those that a pod's network should hold. The lock is held.
func (p *Pods) rulesFor(s *served) redirect.AmbientRules {
	return redirect.AmbientRules{IPv6: s.ipv6, Kubelet: p.network.open && len(s.remote.Probed) > 0, BlockQUIC: s.remote.BlockQUIC}
}

// written is what a pod's network holds of rules. It is Run's alone.
type written struct {
	rules redirect.AmbientRules
	again time.Time // when it is tried again to write others
}

// write has the calling thread's network hold a pod's rules.
func (p *Pods) writeRules(ctx context.Context, s *served, patience time.Duration) error {
	p.mu.Lock()
	rules := p.rulesFor(s)
	p.mu.Unlock()
	err := kernel.Apply(ctx, redirect.BuildAmbient(rules), redirect.AmbientDivert, kernel.Run{Wait: patience, Log: p.cfg.Log})
	if err == nil {
		s.wrote.rules = rules
	}
	return err
}

// keepRules writes the rules of pods anew that should be others now. What is open goes on.
func (p *Pods) keepRules(ctx context.Context) {
	p.mu.Lock()
	var differ []*served
	for _, s := range p.served {
		if s.err == nil && s.wrote != nil && s.wrote.rules != p.rulesFor(s) && !time.Now().Before(s.wrote.again) {
			differ = append(differ, s)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(differ, func(a, b *served) int { return cmp.Compare(a.local.Key(), b.local.Key()) })
	for _, s := range differ {
		if p.wanted(s) != nil {
			continue
		}
		if err := inside(s.network, func() error { return p.writeRules(ctx, s, rulesPatience>>3) }); err != nil {
			s.wrote.again = time.Now().Add(againSlowest)
			p.cfg.Log.Error("a pod keeps the rules that it had; others are tried again", "pod", s.local.Key(), "err", err, "in", againSlowest)
		}
	}
}
