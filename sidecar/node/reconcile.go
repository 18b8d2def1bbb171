package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
	"github.com/sallyport/sallyport/xds/ambient"
)

// repair is how often what should be served is looked at again without a reason.
const repair = 2 * time.Second

// Run keeps who is served as it should be until ctx ends. Listeners stay as they are then: the next agent, and Envoy, begin anew.
func (p *Pods) Run(ctx context.Context) {
	tick := time.NewTicker(repair)
	defer tick.Stop()
	changes, unwatch := p.changes()
	defer unwatch()
	end := func() {}
	defer func() { end() }()
	keeps := false
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { p.handInLeft(ctx) })
	for {
		p.reconcile(ctx)
		if should := p.keepsPlugin(); should != keeps {
			if end(); should {
				end = p.keepPlugin(ctx)
			} else {
				end = func() {}
			}
			keeps = should
		}
		if !p.awaits(ctx, changes, tick.C) {
			return
		}
	}
}

// awaits waits until there is a reason to look who should be served; false when ctx ends. Most of what changes in the folder is this agent's own doing, which it knows.
func (p *Pods) awaits(ctx context.Context, changes <-chan fsnotify.Event, tick <-chan time.Time) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-p.kick:
			return true
		case e := <-changes:
			if p.readChanged(e, changes) {
				return true
			}
		case <-tick:
			p.readPods()
			p.lookAtAll()
			p.find()
			return true
		}
	}
}

// networksToLookAt are the pods whose networks may be others than they were, or gone, as far as anybody said so; of all it is looked at now and then.
type networksToLookAt struct {
	all  bool
	some map[string]bool // by the pods' keys
}

// lookAtAll has all pods' networks looked at when it is looked next who should be served.
func (p *Pods) lookAtAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks.all = true
}

func (n *networksToLookAt) add(pod string) {
	if n.some == nil {
		n.some = map[string]bool{}
	}
	n.some[pod] = true
}

// take says of which pods they are to be looked at, which is done with that.
func (n *networksToLookAt) take() func(pod string) bool {
	was := *n
	*n = networksToLookAt{}
	return func(pod string) bool { return was.all || was.some[pod] }
}

// keepsPlugin says whether this agent is the one that keeps the plugin installed. Before it can serve pods the plugin would only keep them from
// starting.
func (p *Pods) keepsPlugin() bool {
	p.mu.Lock()
	mine := p.holds && !p.leaves
	p.mu.Unlock()
	return p.cfg.Plugin != nil && mine && (p.cfg.Plugin.Lacks() == nil || p.Listeners.Taken())
}

// keepPlugin keeps it installed until the end is called.
func (p *Pods) keepPlugin(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); p.cfg.Plugin.Keep(ctx) }()
	return func() { cancel(); <-done }
}

// find takes pods in of the mesh whose networks nobody told of: they started before the plugin was there.
func (p *Pods) find() {
	p.mu.Lock()
	missing := map[string]ambient.Pod{}
	for key, r := range p.remote {
		if _, here := p.local[key]; !here && p.waiting(r) && !p.relieved() {
			missing[key] = r
		}
	}
	p.mu.Unlock()
	if len(missing) == 0 || p.cfg.Found == "" {
		return
	}
	for _, l := range found(p.cfg.Found) {
		r, wanted := missing[l.Key()]
		if _, err := inodeOf(l.Network); !wanted || !is(l, r) || err != nil {
			continue
		}
		p.mu.Lock()
		if _, here := p.local[l.Key()]; !here { // else the plugin was faster
			if err := p.write(l); err != nil {
				p.cfg.Log.Warn("what is known of a pod cannot be kept", "pod", l.Key(), "err", err)
			}
			p.local[l.Key()] = l
			p.asks()
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
	p.lookForNetwork()
	p.expect()
	begin, change, end := p.differs()
	for _, s := range change {
		p.Listeners.open(s.local.Key(), s.door())
	}
	for _, e := range end {
		p.end(ctx, e)
	}
	for _, s := range begin {
		if s.err = p.begin(ctx, s); errors.Is(s.err, errLetOut) {
			continue
		} else if s.err == nil {
			go p.awaitCertificate(ctx, s.ready, s.ended)
		} else {
			s.fail()
			p.cfg.Log.Error("a pod is not served, and its traffic goes nowhere; it is tried again", "pod", s.local.Key(), "err", s.err)
		}
		p.mu.Lock()
		p.served[s.local.Key()] = s // nothing of it changes from now on
		if p.holds {                // since it took the node, perhaps
			p.choose(s.names, true)
		}
		p.tell()
		p.mu.Unlock()
	}
	p.keepRules(ctx)
	p.keepProbed()
}

// differs are the pods to begin and to end with, and those of which only what their listeners are changes.
func (p *Pods) differs() (begin, change []*served, end []ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	looks := p.looks.take()
	ended := map[string]bool{} // without a word
	for key, l := range p.local {
		if !looks(key) {
			continue
		}
		if _, err := os.Stat(l.Network); !os.IsNotExist(err) {
			continue
		}
		if ended[key] = true; p.holds { // others may not know yet that another one of its name has come
			delete(p.local, key)
			_ = os.Remove(p.file(l))
			p.unlink(l)
		}
	}
	for key, s := range p.served {
		l, here := p.local[key]
		r, known := p.remote[key]
		if !here || !known || !is(l, r) || !p.waiting(r) || l != s.local || r.Identity != s.remote.Identity || looks(key) && s.gone() {
			// Who is not known any more may be deleted, and still run.
			end = append(end, ending{s, here && known && is(l, r) && !r.In, !here || l != s.local})
			delete(p.served, key)
		} else if s.err == nil && s.certified() && (!s.opened || r.Outbound != s.remote.Outbound || differsInRules(r, s.remote) || !maps.EqualFunc(r.Templates, s.remote.Templates, bytes.Equal)) {
			next := *s
			next.remote, next.opened = r, true
			p.served[key] = &next
			change = append(change, &next)
		}
	}
	for key, l := range p.local {
		r, known := p.remote[key]
		if !known || !is(l, r) || ended[key] {
			continue
		}
		s := p.served[key]
		switch {
		case p.waiting(r) && p.takesIn() && s == nil:
			begin = append(begin, &served{local: l, remote: r})
		case p.waiting(r) && p.takesIn() && s.err != nil && !time.Now().Before(s.again):
			begin = append(begin, &served{local: l, remote: r, failures: s.failures})
		case !r.In && looks(key) && !slices.ContainsFunc(end, func(e ending) bool { return e.local == l }):
			if network, ok := p.linked(l); ok { // it was served by an agent that is gone, or could not be let out yet
				end = append(end, ending{&served{local: l, remote: r, network: network}, true, false})
			}
		}
	}
	slices.SortStableFunc(begin, func(a, b *served) int { return cmp.Compare(a.failures, b.failures) })
	return begin, change, end
}

// differsInRules says whether a pod's rules become others by what the controller says.
func differsInRules(a, b ambient.Pod) bool {
	return a.BlockQUIC != b.BlockQUIC || !slices.Equal(a.Probed, b.Probed)
}

// fail notes that a pod could not be taken in: it is tried again after a while, which doubles. What its pod does to its own network, such as to hold
// the lock of rules there, keeps others waiting no more often than that.
func (s *served) fail() {
	s.again = time.Now().Add(min(repair<<min(s.failures, 8), againSlowest))
	s.failures++
}

// againSlowest is how long a pod that cannot be taken in waits at most for the next try.
const againSlowest = time.Minute

// certified says whether the pod's certificate is there.
func (s *served) certified() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// awaitCertificate has it looked again when a pod's certificate is there, whose listeners wait for it: another agent may serve the pod meanwhile.
func (p *Pods) awaitCertificate(ctx context.Context, ready <-chan struct{}, ended chan struct{}) {
	select {
	case <-ctx.Done():
	case <-ended:
	case <-ready:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asks()
	}
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

// errLetOut is of a pod that is let out of the mesh as it is about to be taken in.
var errLetOut = errors.New("it is let out of the mesh")

// wanted says whether a pod is still to be served.
func (p *Pods) wanted(s *served) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.remote[s.local.Key()]; is(s.local, r) && !p.waiting(r) {
		return errLetOut
	}
	return nil
}

func (p *Pods) begin(ctx context.Context, s *served) (err error) {
	key := s.local.Key()
	if err = p.wanted(s); err != nil {
		return err
	}
	if s.network, err = link(p.path("networks"), s.local); err != nil {
		return err
	}
	ready, uncertified := p.cfg.Certificates.Keep(s.remote.Identity) // it is asked for while the rules are written
	defer func() {
		if err != nil && uncertified == nil {
			p.cfg.Certificates.Drop(s.remote.Identity)
		}
	}()
	opened := func() bool { return false }
	defer func() {
		if err != nil && opened() {
			p.Listeners.close(key)
		}
	}()
	// The rules come whatever lacks: until there is somebody at their end, nothing leaves. They take as long as Envoy takes to open the pod's listeners, which has them
	// from when the certificate is there.
	if err = inside(s.network, func() (err error) {
		if s.addresses, err = ownAddresses(); err != nil {
			return err
		}
		s.ipv6, err = kernel.UseIPv6(os.DirFS("/proc"), redirect.IPv6Auto)
		if err != nil {
			return err
		}
		if err := p.wanted(s); err != nil { // it may have taken a while until here
			return err
		}
		if uncertified == nil {
			opened = p.openBeside(key, s.door(), ready)
		}
		s.ruled, s.wrote = true, &written{}
		return p.writeRules(ctx, s, rulesPatience>>min(s.failures, 3))
	}); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	if _, err = link(p.path("networks"), s.local); err != nil { // the holder may have let it out meanwhile, and removed that
		return err
	}
	if s.ready = ready; uncertified != nil {
		return fmt.Errorf("certificate: %w", uncertified)
	}
	if s.names, s.endNames, err = p.openNames(workloadOf(s.remote), s.network, s.ipv6); err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	s.ended = make(chan struct{})
	if s.opened = opened(); !s.opened && s.certified() {
		s.opened = true
		p.Listeners.open(key, s.door())
	}
	_ = cni.MigrateRequests(s.network)
	p.cfg.Log.Info("a pod is taken in", "pod", key, "identity", s.remote.Identity)
	return nil
}

// openBeside opens a pod's listeners once its certificate is there, until it is asked whether it did: no more from then on.
func (p *Pods) openBeside(key string, d podListener, ready <-chan struct{}) (opened func() bool) {
	enough, done := make(chan struct{}), make(chan bool, 1)
	go func() {
		select {
		case <-ready:
			p.Listeners.open(key, d)
			done <- true
		case <-enough:
			done <- false
		}
	}()
	return sync.OnceValue(func() bool { close(enough); return <-done })
}

// door is what its listeners are made with.
func (s *served) door() podListener {
	return podListener{
		values:    map[string]string{ambient.Identity: s.remote.Identity, ambient.Network: s.network, ambient.Name: s.local.Key()},
		templates: s.remote.Templates, addresses: s.addresses, ipv6: s.ipv6, outbound: s.remote.Outbound,
	}
}

// end lets a pod go: at once where it ended, and with its rules removed where it was let out of the mesh. Where neither is so, it stays closed.
func (p *Pods) end(ctx context.Context, e ending) {
	key := e.local.Key()
	p.Listeners.close(key)
	if e.endNames != nil {
		e.endNames()
		p.cfg.Certificates.Drop(e.remote.Identity)
		close(e.ended)
	}
	p.mu.Lock()
	holds := p.holds
	p.mu.Unlock()
	if e.letOut && !holds { // who holds the node removes the rules, which it may have written anew
		if e.ruled { // it may have done so before these were written: it does again what is linked
			if _, err := link(p.path("networks"), e.local); err != nil && !errors.Is(err, os.ErrNotExist) {
				p.cfg.Log.Error("a pod that is let out may stay closed", "pod", key, "err", err)
			}
		}
		p.cfg.Log.Info("a pod is let go", "pod", key)
		return
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
	if p.network.table != nil {
		errs = append(errs, p.network.table.Remove())
	}
	return errors.Join(errs...)
}
