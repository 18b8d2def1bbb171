package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
	"github.com/sallyport/sallyport/xds/ambient"
)

// repair is how often what should be served is looked at again without a reason.
const repair = 2 * time.Second

// Run keeps who is served as it should be until ctx ends. Listeners stay as they are then: the next agent, and Envoy, begin anew.
func (p *Pods) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	tick := time.NewTicker(repair)
	defer tick.Stop()
	installs := false
	for {
		p.reconcile(ctx)
		if !installs && p.cfg.Plugin != nil && p.Listeners.Taken() { // before that it would only keep pods from starting
			installs = true
			work.Go(func() { p.cfg.Plugin.Keep(ctx) })
		}
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-tick.C:
			p.find()
		}
	}
}

// find takes pods in of the mesh whose networks nobody told of: they started before the plugin was there.
func (p *Pods) find() {
	p.mu.Lock()
	missing := map[string]ambient.Pod{}
	for key, r := range p.remote {
		if _, here := p.local[key]; !here && r.In && r.Why == "" {
			missing[key] = r
		}
	}
	p.mu.Unlock()
	if len(missing) == 0 || p.cfg.Found == "" {
		return
	}
	for _, l := range found(p.cfg.Found) {
		r, wanted := missing[l.Key()]
		if _, err := inodeOf(l.Network); !wanted || !l.is(r) || err != nil {
			continue
		}
		p.mu.Lock()
		if _, here := p.local[l.Key()]; !here { // else the plugin was faster
			p.local[l.Key()] = l
			p.asks()
			if err := p.write(l); err != nil {
				p.cfg.Log.Warn("what is known of a pod cannot be kept", "pod", l.Key(), "err", err)
			}
			p.cfg.Log.Info("a pod is found that nobody told of", "pod", l.Key())
		}
		p.mu.Unlock()
	}
}

// ending is a pod that is served no more.
type ending struct {
	*served
	letOut bool // the mesh's rules go: it is told not to be the mesh's, by the controller
	gone   bool // from this node
}

// reconcile serves who should be, and no others. It is the only one that changes who is served.
func (p *Pods) reconcile(ctx context.Context) {
	begin, change, end := p.differs()
	for _, s := range change {
		p.Listeners.open(s.local.Key(), s.door())
	}
	for _, e := range end {
		p.end(ctx, e)
	}
	for _, s := range begin {
		if s.err = p.begin(ctx, s); s.err != nil {
			p.cfg.Log.Error("a pod is not served, and its traffic goes nowhere; it is tried again", "pod", s.local.Key(), "err", s.err)
		}
		p.mu.Lock()
		p.served[s.local.Key()] = s // nothing of it changes from now on
		p.tell()
		p.mu.Unlock()
	}
}

// differs are the pods to begin and to end with, and those of which only what their listeners are changes.
func (p *Pods) differs() (begin, change []*served, end []ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, l := range p.local {
		if _, err := os.Stat(l.Network); os.IsNotExist(err) {
			delete(p.local, key) // it ended without a word
			_ = os.Remove(p.file(l))
			p.unlink(l)
		}
	}
	for key, s := range p.served {
		l, here := p.local[key]
		r, known := p.remote[key]
		if !here || !known || !l.is(r) || !r.In || r.Why != "" || l != s.local || r.Identity != s.remote.Identity || s.gone() {
			// Who is not known any more may be deleted, and still run.
			end = append(end, ending{s, here && known && l.is(r) && !r.In, !here || l != s.local})
			delete(p.served, key)
		} else if s.err == nil && !maps.EqualFunc(r.Templates, s.remote.Templates, bytes.Equal) {
			next := *s
			next.remote = r
			p.served[key] = &next
			change = append(change, &next)
		}
	}
	for key, l := range p.local {
		r, known := p.remote[key]
		if !known || !l.is(r) {
			continue
		}
		s := p.served[key]
		switch {
		case r.In && r.Why == "" && (s == nil || s.err != nil):
			begin = append(begin, &served{local: l, remote: r})
		case !r.In && !slices.ContainsFunc(end, func(e ending) bool { return e.local == l }):
			if network, ok := p.linked(l); ok { // it was served by an agent that is gone, or could not be let out yet
				end = append(end, ending{&served{local: l, remote: r, network: network}, true, false})
			}
		}
	}
	return begin, change, end
}

// gone says whether the namespace that a pod was served in is not the one at its path any more.
func (s *served) gone() bool {
	if s.network == "" {
		return false
	}
	now, err := inodeOf(s.local.Network)
	if err != nil {
		return true
	}
	return !strings.HasSuffix(s.network, fmt.Sprintf("-%d", now))
}

// rulesPatience is how long others may hold iptables' lock.
const rulesPatience = 10 * time.Second

func (p *Pods) begin(ctx context.Context, s *served) (err error) {
	key := s.local.Key()
	if s.network, err = link(p.path("networks"), s.local); err != nil {
		return err
	}
	// The rules come first: until there is somebody at their end, nothing leaves.
	if err := inside(s.network, func() (err error) {
		if s.addresses, err = ownAddresses(); err != nil {
			return err
		}
		ipv6, err := kernel.UseIPv6(os.DirFS("/proc"), redirect.IPv6Auto)
		if err != nil {
			return err
		}
		return kernel.Apply(ctx, redirect.BuildAmbient(ipv6), redirect.AmbientDivert, kernel.Run{Wait: rulesPatience, Log: p.cfg.Log})
	}); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	if s.ready, err = p.cfg.Certificates.Keep(s.remote.Identity); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	if s.endNames, err = p.openNames(s.network); err != nil {
		p.cfg.Certificates.Drop(s.remote.Identity)
		return fmt.Errorf("DNS: %w", err)
	}
	p.Listeners.open(key, s.door())
	p.cfg.Log.Info("a pod is taken in", "pod", key, "identity", s.remote.Identity)
	return nil
}

// door is what its listeners are made with.
func (s *served) door() door {
	return door{
		values:    map[string]string{ambient.Identity: s.remote.Identity, ambient.Network: s.network, ambient.Name: s.local.Key()},
		templates: s.remote.Templates, addresses: s.addresses,
	}
}

// openNames answers the DNS of a pod in its own network.
func (p *Pods) openNames(network string) (end func(), err error) {
	var packets net.PacketConn
	var streams net.Listener
	addr := fmt.Sprintf("127.0.0.1:%d", redirect.AmbientDNSPort)
	if err := inside(network, func() (err error) {
		if packets, err = net.ListenPacket("udp4", addr); err != nil {
			return err
		}
		if streams, err = net.Listen("tcp4", addr); err != nil {
			return errors.Join(err, packets.Close())
		}
		return nil
	}); err != nil {
		return nil, err
	}
	end, err = p.cfg.DNS(packets, streams)
	if err != nil {
		return nil, errors.Join(err, packets.Close(), streams.Close())
	}
	return end, nil
}

// end lets a pod go: at once where it ended, and with its rules removed where it was let out of the mesh. Where neither is so, it stays closed.
func (p *Pods) end(ctx context.Context, e ending) {
	key := e.local.Key()
	p.Listeners.close(key)
	if e.endNames != nil {
		e.endNames()
		p.cfg.Certificates.Drop(e.remote.Identity)
	}
	if e.letOut {
		if err := p.clean(ctx, e.network); err != nil {
			p.cfg.Log.Error("a pod cannot be let out, and its traffic goes nowhere; it is tried again", "pod", key, "err", err)
			return
		}
	}
	if (e.letOut || e.gone) && e.network != "" {
		_ = os.Remove(e.network)
	}
	p.cfg.Log.Info("a pod is let go", "pod", key, "out_of_the_mesh", e.letOut)
}

// clean removes the rules from a pod's network, if it is still there.
func (p *Pods) clean(ctx context.Context, network string) error {
	if _, err := inodeOf(network); os.IsNotExist(err) {
		return nil
	}
	return inside(network, func() error {
		return kernel.Clean(ctx, redirect.AmbientDivert, kernel.Run{Wait: rulesPatience, Log: p.cfg.Log})
	})
}

// LetOut lets all pods out of the mesh, once nothing else of the agent runs: the mesh is removed from the node.
func (p *Pods) LetOut(ctx context.Context) error {
	var errs []error
	for _, l := range p.local {
		if network, ok := p.linked(l); ok {
			err := p.clean(ctx, network)
			if errs = append(errs, err); err == nil {
				p.unlink(l)
			}
		}
	}
	return errors.Join(errs...)
}
