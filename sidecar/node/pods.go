package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	listenerservicev3 "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/xds/ambient"
)

// Certificates is who keeps the pods' certificates: secrets.Pods.
type Certificates interface {
	Keep(identity string) (<-chan struct{}, error)
	Drop(identity string)
}

// Config is what Pods needs.
type Config struct {
	Log          *slog.Logger
	Folder       string // of what is kept across restarts
	Certificates Certificates
	// DNS answers questions on sockets that were opened in a pod, until the function that it gives is called.
	DNS func(net.PacketConn, net.Listener) (end func(), err error)
}

// Local is what the node knows of a pod: where its network is.
type Local struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Network   string `json:"network"` // path of its network namespace
}

// Key is NAMESPACE/NAME.
func (l Local) Key() string { return l.Namespace + "/" + l.Name }

// Pods are the node's. Its methods may be called at the same time.
type Pods struct {
	Listeners *Listeners
	cfg       Config

	mu      sync.Mutex
	local   map[string]Local
	remote  map[string]ambient.Pod
	served  map[string]*served
	changed chan struct{} // closed when any of these is
	kick    chan struct{}
}

// served is a pod that has listeners, or could not be given them.
type served struct {
	local    Local
	remote   ambient.Pod
	network  string // the path that Envoy knows
	ready    <-chan struct{}
	endNames func()
	err      error // why it is not; it is tried again
}

// New reads which pods there were before.
func New(cfg Config) (*Pods, error) {
	p := &Pods{
		Listeners: newListeners(cfg.Log), cfg: cfg, local: map[string]Local{}, remote: map[string]ambient.Pod{}, served: map[string]*served{},
		changed: make(chan struct{}), kick: make(chan struct{}, 1),
	}
	for _, folder := range []string{p.path("pods"), p.path("networks")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(p.path("pods", "*.json"))
	for _, file := range files {
		var l Local
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			cfg.Log.Warn("what was known of a pod cannot be read", "file", file, "err", err)
			continue
		}
		p.local[l.Key()] = l
	}
	return p, err
}

func (p *Pods) path(name ...string) string {
	return filepath.Join(append([]string{p.cfg.Folder}, name...)...)
}

func (p *Pods) file(l Local) string { return p.path("pods", l.Namespace+"."+l.Name+".json") }

// Watches implements agent.Pods.
func (p *Pods) Watches() []relay.Watch {
	return []relay.Watch{
		{TypeURL: ListenerType, Last: true, Apply: p.Listeners.apply},
		{TypeURL: ambient.PodType, Apply: p.apply},
	}
}

// Register implements agent.Pods.
func (p *Pods) Register(s grpc.ServiceRegistrar) {
	listenerservicev3.RegisterListenerDiscoveryServiceServer(s, p.Listeners)
}

// Taken implements agent.Pods.
func (p *Pods) Taken() bool { return p.Listeners.Taken() }

// apply takes what the controller says of pods (relay.Watch).
func (p *Pods) apply(changed []*discoveryv3.Resource, removed []string) map[string]error {
	refused := map[string]error{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range changed {
		pod, err := ambient.Unmarshal(r.GetResource().GetValue())
		if err == nil && pod.Key() != r.GetName() {
			err = fmt.Errorf("the resource holds the pod %q", pod.Key())
		}
		if err != nil {
			refused[r.GetName()] = err
			continue
		}
		p.remote[pod.Key()] = pod
	}
	for _, name := range removed {
		delete(p.remote, name)
	}
	p.asks()
	return refused
}

// tell wakes those who wait for a change. The lock is held.
func (p *Pods) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// asks has who is served looked at, and wakes those who wait. The lock is held.
func (p *Pods) asks() {
	p.tell()
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// Add takes a pod in whose network is made, and returns when it is served, or is none of the mesh's. Where it can be neither
// before ctx ends, the error says why, and traffic of the pod goes nowhere if it is the mesh's.
func (p *Pods) Add(ctx context.Context, l Local) error {
	if l.Namespace == "" || l.Name == "" || strings.ContainsAny(l.Namespace+l.Name, "/\\") {
		return fmt.Errorf("pod %q: must be NAMESPACE/NAME", l.Key())
	}
	if _, err := inodeOf(l.Network); err != nil {
		return fmt.Errorf("network namespace of %s: %w", l.Key(), err)
	}
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := writeFile(p.file(l), text); err != nil {
		return err
	}
	p.mu.Lock()
	p.local[l.Key()] = l
	p.asks()
	p.mu.Unlock()
	return p.await(ctx, l)
}

func (p *Pods) await(ctx context.Context, l Local) error {
	tick := time.NewTicker(5 * time.Millisecond) // Envoy tells that it took listeners, and opens them a little later
	defer tick.Stop()
	for {
		p.mu.Lock()
		s, why := p.servedAs(l)
		changed := p.changed
		p.mu.Unlock()
		if s != nil {
			why = s.lacks()
		}
		if why == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", l.Key(), why)
		case <-changed:
		case <-tick.C:
		}
	}
}

// servedAs gives how a pod is served, or says what it waits for before that; neither where it is none of the mesh's. The lock is held.
func (p *Pods) servedAs(l Local) (*served, error) {
	remote, known := p.remote[l.Key()]
	switch s := p.served[l.Key()]; {
	case !known || remote.UID != "" && l.UID != "" && remote.UID != l.UID:
		return nil, errors.New("the controller has not told of it yet")
	case !remote.In:
		return nil, nil
	case remote.Why != "":
		return nil, errors.New(remote.Why)
	case s == nil || s.local != l:
		return nil, errors.New("it is being taken in")
	default:
		return s, nil
	}
}

// lacks says what a pod that is taken in waits for; nil when it waits for nothing.
func (s *served) lacks() error {
	if s.err != nil {
		return s.err
	}
	select {
	case <-s.ready:
	default:
		return errors.New("its certificate has not come yet")
	}
	return inside(s.network, func() error {
		open, err := listening(redirect.AmbientOutboundPort, redirect.AmbientInboundPort)
		if err == nil && !open {
			err = errors.New("its listeners are not open yet")
		}
		return err
	})
}

// Remove lets a pod go. One that is not known is no error, nor one whose network is another than that of the pod that is meant.
func (p *Pods) Remove(l Local) error {
	p.mu.Lock()
	was, ok := p.local[l.Key()]
	if !ok || l.Network != "" && was.Network != l.Network {
		p.mu.Unlock()
		return nil
	}
	delete(p.local, l.Key())
	p.asks()
	p.mu.Unlock()
	if err := os.Remove(p.file(l)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// Check says why a pod that was added is not served as it should be.
func (p *Pods) Check(l Local) error {
	p.mu.Lock()
	was, ok := p.local[l.Key()]
	s, why := p.servedAs(was)
	p.mu.Unlock()
	switch {
	case !ok:
		return fmt.Errorf("%s was not added", l.Key())
	case s != nil:
		return s.lacks()
	default:
		return why
	}
}

// Whose finds a pod by one of its addresses.
func (p *Pods) Whose(addr netip.Addr) (record.Workload, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.remote {
		if slices.Contains(r.Addresses, addr.Unmap().String()) {
			return record.Workload{Principal: r.Identity, Namespace: r.Namespace, ServiceAccount: r.Account, Name: r.Name}, true
		}
	}
	return record.Workload{}, false
}

// repair is how often what should be served is looked at again without a reason.
const repair = 2 * time.Second

// Run keeps who is served as it should be until ctx ends. Listeners stay as they are then: the next agent, and Envoy, begin anew.
func (p *Pods) Run(ctx context.Context) {
	tick := time.NewTicker(repair)
	defer tick.Stop()
	for {
		p.reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.kick:
		case <-tick.C:
		}
	}
}

// reconcile serves who should be, and no others. It is the only one that changes who is served.
func (p *Pods) reconcile(ctx context.Context) {
	p.mu.Lock()
	var begin []*served
	var end []*served
	for key, s := range p.served {
		l, here := p.local[key]
		r, known := p.remote[key]
		if !here || !known || !r.In || r.Why != "" || l != s.local || r.Identity != s.remote.Identity || s.gone() {
			end = append(end, s)
			delete(p.served, key)
		}
	}
	for key, l := range p.local {
		if _, err := os.Stat(l.Network); os.IsNotExist(err) {
			delete(p.local, key) // it ended without a word
			_ = os.Remove(p.file(l))
			continue
		}
		r, known := p.remote[key]
		if known && r.In && r.Why == "" && (p.served[key] == nil || p.served[key].err != nil) {
			begin = append(begin, &served{local: l, remote: r})
		}
	}
	letOut := map[*served]bool{}
	for _, s := range end {
		r, known := p.remote[s.local.Key()]
		letOut[s] = !known || !r.In
	}
	p.mu.Unlock()
	for _, s := range end {
		p.end(ctx, s, letOut[s])
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
	if err := inside(s.network, func() error {
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
	p.Listeners.open(key, map[string]string{
		ambient.Identity: s.remote.Identity, ambient.Network: s.network, ambient.Name: key,
	})
	p.cfg.Log.Info("a pod is taken in", "pod", key, "identity", s.remote.Identity)
	return nil
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

// end lets a pod go: at once where it ended, and with its rules removed where it was let out of the mesh.
func (p *Pods) end(ctx context.Context, s *served, letOut bool) {
	key := s.local.Key()
	p.Listeners.close(key)
	if s.endNames != nil {
		s.endNames()
		p.cfg.Certificates.Drop(s.remote.Identity)
	}
	if letOut {
		err := inside(s.network, func() error {
			return kernel.Clean(ctx, redirect.AmbientDivert, kernel.Run{Wait: rulesPatience, Log: p.cfg.Log})
		})
		if err != nil && !os.IsNotExist(err) {
			p.cfg.Log.Debug("the rules of a pod that was let out could not be removed", "pod", key, "err", err)
		}
	}
	if s.network != "" {
		_ = os.Remove(s.network)
	}
	p.cfg.Log.Info("a pod is let go", "pod", key)
}

func writeFile(path string, content []byte) error {
	next := path + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}
