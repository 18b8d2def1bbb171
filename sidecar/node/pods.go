package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	listenerservicev3 "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/sidecar/node/cni"
	"github.com/sallyport/sallyport/sidecar/node/plugin"
	"github.com/sallyport/sallyport/sidecar/redirect"
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
	RunDir       string // of all agents of the node, where the CNI plugin finds the one that holds it
	Folder       string // of what is known of pods, which all agents of the node share
	Tables       string // folder of this agent's own: which ports have tables, for its Envoy
	Certificates Certificates
	Settled      func() bool                // Envoy has all that the controller says, but for listeners; the same of DNS
	Warming      func(context.Context) bool // Envoy has listeners that do not listen yet, or does not say
	// HandIn hands in the audit records that an agent left in its folder.
	HandIn func(ctx context.Context, folder string) error
	// DNS answers questions on sockets that were opened in a pod, which are all taken for its own, until the function that it gives is called.
	DNS func(pod record.Workload, packets net.PacketConn, streams net.Listener) (end func(), err error)
	// Found is the folder where the runtime keeps what CNI plugins were called with (/var/lib/cni/results): pods that nobody told of are
	// found there; "" where there is none.
	Found string
	// HostNetwork is the path of the node's own network namespace, once the CNI plugin has left it there; "" where nobody does.
	HostNetwork string
	// Plugin is installed once pods can be served; nil where somebody else tells of pods.
	Plugin *plugin.Install
}

// Local is what the node knows of a pod: where its network is.
type Local = cni.Local

// is says whether the controller's pod is the one that the node knows, and not another of its name.
func is(l Local, r ambient.Pod) bool { return r.UID == "" || l.UID == "" || r.UID == l.UID }

// Pods are the node's. Its methods may be called at the same time.
type Pods struct {
	Listeners *Listeners
	cfg       Config

	files    map[string]podFile // by name; Run's alone, once it runs
	filesAt  time.Time          // of their folder, when they were read; zero for that it has to be looked at again
	expected map[string]string  // whose certificates are kept since the controller told of them: identities by the pods' keys; Run's alone
	network  nodesNetwork

	mu sync.Mutex
	holder
	local   map[string]Local
	remote  map[string]ambient.Pod
	served  map[string]*served
	looks   networksToLookAt
	turned  []string      // who was served when the controller gave it other listeners, until it is asked whether these count (inForce)
	changed chan struct{} // closed when any of these is
	kick    chan struct{}
}

// served is a pod that has listeners, or could not be given them.
type served struct {
	local     Local
	remote    ambient.Pod
	network   string       // the path that Envoy knows
	addresses []netip.Addr // that it had when it was taken in
	ipv6      bool         // it has it: rules and listeners are for both families
	ready     <-chan struct{}
	ruled     bool // rules were written in its network, or that was tried
	wrote     *written
	opened    bool // its listeners, which wait for its certificate
	ended     chan struct{}
	names     []syscall.Conn // where its DNS is answered
	endNames  func()
	err       error     // why it is not; it is tried again
	again     time.Time // when
	failures  int       // so far
}

// New reads which pods there were before.
func New(cfg Config) (*Pods, error) {
	p := &Pods{
		Listeners: newListeners(cfg.Log, cfg.Tables), cfg: cfg, local: map[string]Local{}, remote: map[string]ambient.Pod{}, served: map[string]*served{},
		changed: make(chan struct{}), kick: make(chan struct{}, 1), files: map[string]podFile{}, expected: map[string]string{},
	}
	for _, folder := range []string{p.path("pods"), p.path("networks")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	p.readPods()
	p.lookAtAll()
	if cfg.Plugin != nil {
		cfg.Plugin.Wait()
	}
	return p, nil
}

func (p *Pods) path(name ...string) string {
	return filepath.Join(append([]string{p.cfg.Folder}, name...)...)
}

func (p *Pods) file(l Local) string { return p.path("pods", l.Namespace+"."+l.Name+".json") }

// Watches implements agent.Pods.
func (p *Pods) Watches() []relay.Watch {
	return []relay.Watch{
		{TypeURL: ListenerType, Last: true, Apply: p.Listeners.apply},
		{TypeURL: ambient.PodType, Apply: p.apply, InForce: p.inForce},
	}
}

// Register implements agent.Pods.
func (p *Pods) Register(s grpc.ServiceRegistrar) {
	listenerservicev3.RegisterListenerDiscoveryServiceServer(s, p.Listeners)
}

// Lacks implements agent.Pods.
func (p *Pods) Lacks() string {
	p.mu.Lock()
	late := p.may && time.Since(p.since) > catchUp
	p.mu.Unlock()
	if !p.taken(late) {
		return "Envoy has not accepted all listeners yet"
	}
	if why := p.lacksAtFirst(); why != "" {
		return why
	}
	if p.cfg.Plugin != nil {
		if err := p.cfg.Plugin.Lacks(); err != nil {
			return "the CNI plugin is not installed: " + err.Error()
		}
	}
	return ""
}

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
		if p.served[pod.Key()] != nil && !maps.EqualFunc(p.remote[pod.Key()].Templates, pod.Templates, bytes.Equal) {
			p.turned = append(p.turned, pod.Key())
		}
		p.remote[pod.Key()] = pod
		p.looks.add(pod.Key())
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
	if err := l.Valid(); err != nil {
		return err
	}
	if _, err := inodeOf(l.Network); err != nil {
		return fmt.Errorf("network namespace of %s: %w", l.Key(), err)
	}
	if err := p.write(l); err != nil {
		return err
	}
	p.mu.Lock()
	p.local[l.Key()] = l
	p.looks.add(l.Key())
	if s := p.served[l.Key()]; s != nil {
		s.again = time.Time{}
	}
	p.asks()
	p.mu.Unlock()
	return p.await(ctx, l)
}

// write keeps what is known of a pod across restarts.
func (p *Pods) write(l Local) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return writeFile(p.file(l), text)
}

func (p *Pods) await(ctx context.Context, l Local) error {
	tick := time.NewTicker(2 * time.Millisecond) // Envoy tells that it took listeners, and opens them a little later
	defer tick.Stop()
	for {
		p.mu.Lock()
		s, why := p.servedAs(l)
		changed, elsewhere := p.changed, p.relieved() || p.leaves
		p.mu.Unlock()
		if s != nil {
			why = s.lacks()
		}
		if why == nil {
			return nil
		}
		if elsewhere {
			return errElsewhere
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", l.Key(), why)
		case <-changed:
		case <-tick.C:
		}
	}
}

// errElsewhere is of a pod that this agent takes in no more: another one does, or nobody.
var errElsewhere = errors.New("this agent was relieved, or ends")

// servedAs gives how a pod is served, or says what it waits for before that; neither where it is none of the mesh's. The lock is held.
func (p *Pods) servedAs(l Local) (*served, error) {
	remote, known := p.remote[l.Key()]
	switch s := p.served[l.Key()]; {
	case !known || !is(l, remote):
		return nil, errors.New("the controller has not told of it yet")
	case !remote.In:
		return nil, nil
	case p.why(remote) != "":
		return nil, errors.New(p.why(remote))
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
	if !s.opened {
		return errNoCertificate
	}
	return inside(s.network, func() error {
		open, err := listening(redirect.AmbientOutboundPort, redirect.AmbientInboundPort, redirect.AmbientTunnelPort)
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
	p.mu.Unlock()
	if err := os.Remove(p.file(l)); err != nil && !os.IsNotExist(err) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.local[l.Key()] == was {
		delete(p.local, l.Key())
	}
	p.asks()
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

// State is how a pod in the mesh is served.
type State struct {
	Pod string `json:"pod"`           // NAMESPACE/NAME
	Why string `json:"why,omitempty"` // why it is not; "" where it is
}

// Status implements agent.Pods: all pods of the node that are in the mesh, in order.
func (p *Pods) Status() any {
	p.mu.Lock()
	type pod struct {
		*served
		why error
	}
	states := map[string]pod{}
	for key, r := range p.remote {
		if r.In {
			l, here := p.local[key]
			s, why := p.servedAs(l)
			switch {
			case p.why(r) != "":
				why = errors.New(p.why(r))
			case !here:
				s, why = nil, errors.New("where its network is, is not known")
			}
			states[key] = pod{s, why}
		}
	}
	p.mu.Unlock()
	out := []State{}
	for _, key := range slices.Sorted(maps.Keys(states)) {
		state := State{Pod: key}
		s := states[key]
		if s.why == nil && s.served != nil {
			s.why = s.lacks()
		}
		if s.why != nil {
			state.Why = s.why.Error()
		}
		out = append(out, state)
	}
	return out
}

// Whose finds a pod by one of its addresses.
func (p *Pods) Whose(addr netip.Addr) (record.Workload, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.remote {
		if slices.Contains(r.Addresses, addr.Unmap().String()) {
			return workloadOf(r), true
		}
	}
	return record.Workload{}, false
}

func workloadOf(r ambient.Pod) record.Workload {
	return record.Workload{Principal: r.Identity, Namespace: r.Namespace, ServiceAccount: r.Account, Name: r.Name}
}
