package interpret

import (
	"fmt"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Resource is one of a proxy's, as it has it by xDS.
type Resource struct {
	// Name is the resource's own: of a virtual host it begins with its table's name (VHDS).
	Name    string
	Message proto.Message
	// OnDemand is that the proxy has the cluster when it asks for it only.
	OnDemand bool
}

// Proxy is one Envoy.
type Proxy struct {
	identity   []string
	listeners  map[string]*listenerv3.Listener
	ports      map[uint32][]*listenerv3.Listener
	tables     map[string]*table
	fetched    map[string]*table // what the agent has of those whose rows are given when they are used
	scopes     map[string]string // the tables' names, by the scopes' keys
	clusters   map[string]*clusterv3.Cluster
	onDemand   map[string]*clusterv3.Cluster
	endpoints  map[string]*endpointv3.ClusterLoadAssignment
	extensions map[string]*anypb.Any // filters' configurations, by ECDS
}

// New takes a proxy's resources, and the URI names of the certificate that it shows where it is asked for its own. A
// resource with something in it that this package does not know is an error. Known resources are remembered by their
// pointers in Seen, where one is given, so that many proxies may share them.
func New(resources []Resource, identity []string, seen Seen) (p *Proxy, err error) {
	defer caught(&err)
	p = &Proxy{
		identity: identity, listeners: map[string]*listenerv3.Listener{}, ports: map[uint32][]*listenerv3.Listener{}, tables: map[string]*table{}, fetched: map[string]*table{}, scopes: map[string]string{},
		clusters: map[string]*clusterv3.Cluster{}, onDemand: map[string]*clusterv3.Cluster{}, endpoints: map[string]*endpointv3.ClusterLoadAssignment{}, extensions: map[string]*anypb.Any{},
	}
	hosts := map[string][]*routev3.VirtualHost{}
	for _, r := range resources {
		seen.check(r)
		switch m := r.Message.(type) {
		case *listenerv3.Listener:
			p.addListener(m)
		case *routev3.RouteConfiguration:
			p.tables[m.Name] = &table{config: m}
		case *routev3.ScopedRouteConfiguration:
			p.scopes[m.Key.Fragments[0].GetStringKey()] = m.RouteConfigurationName
		case *routev3.VirtualHost:
			of, _, ok := strings.Cut(r.Name, "/")
			if !ok {
				unknown("the virtual host %q: its name says no table", r.Name)
			}
			hosts[of] = append(hosts[of], m)
		case *clusterv3.Cluster:
			if r.OnDemand {
				p.onDemand[m.Name] = m
			} else {
				p.clusters[m.Name] = m
			}
		case *endpointv3.ClusterLoadAssignment:
			p.endpoints[m.ClusterName] = m
		case *corev3.TypedExtensionConfig:
			p.extensions[m.Name] = m.TypedConfig
		case *tlsv3.Secret: // what is in it is no matter here
		default:
			unknown("resources of type %T", m)
		}
	}
	for name, t := range p.tables {
		switch {
		case fetchedOnUse(t.config):
			p.fetched[name] = &table{config: t.config}
			p.fetched[name].add(hosts[name])
		case t.config.Vhds != nil:
			t.add(hosts[name])
		}
		t.add(t.config.VirtualHosts)
	}
	return p, nil
}

func (p *Proxy) addListener(l *listenerv3.Listener) {
	if p.listeners[l.Name] != nil {
		unknown("two listeners %q", l.Name)
	}
	p.listeners[l.Name] = l
	if l.GetInternalListener() != nil {
		return
	}
	at := l.Address.GetSocketAddress()
	p.ports[at.GetPortValue()] = append(p.ports[at.GetPortValue()], l)
	for _, more := range l.AdditionalAddresses {
		if more.Address.GetSocketAddress().GetPortValue() != at.GetPortValue() {
			unknown("listener %q: addresses with several ports", l.Name)
		}
	}
}

// Seen remembers which messages were looked at, and found to be known. nil remembers nothing.
type Seen map[proto.Message]bool

func (s Seen) check(r Resource) {
	if s[r.Message] {
		return
	}
	checkFields(fmt.Sprintf("%s %q", r.Message.ProtoReflect().Descriptor().Name(), r.Name), r.Message.ProtoReflect())
	if s != nil {
		s[r.Message] = true
	}
}

// Connect makes a connection.
func (p *Proxy) Connect(c Connection) (out Outcome, err error) {
	defer caught(&err)
	if c.Through == 0 {
		c.Through = uint32(c.To.Port())
	}
	t := &try{proxy: p, chance: c.Chance, at: c.At, out: &out}
	t.accept(c)
	return out, nil
}

// try is one connection being interpreted, through all internal listeners that it passes.
type try struct {
	proxy  *Proxy
	chance uint64
	at     time.Time
	out    *Outcome
	depth  int
}

func (t *try) step(format string, args ...any) {
	t.out.Steps = append(t.out.Steps, strings.Repeat("  ", t.depth)+fmt.Sprintf(format, args...))
}

// close ends a connection without more.
func (t *try) close(format string, args ...any) {
	t.out.Closed = fmt.Sprintf(format, args...)
	t.step("closed: %s", t.out.Closed)
}

// deeper guards against listeners that lead to each other.
func (t *try) deeper() func() {
	if t.depth++; t.depth > 16 {
		unknown("internal listeners lead to each other")
	}
	return func() { t.depth-- }
}

// cluster finds a cluster; onDemand that one that is not there is asked for.
func (p *Proxy) cluster(name string, onDemand bool) *clusterv3.Cluster {
	if c := p.clusters[name]; c != nil || !onDemand {
		return c
	}
	return p.onDemand[name]
}
