package registry

import (
	"cmp"
	"slices"
	"sync"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// IngressPorts is what an ingress gateway's pods open.
type IngressPorts struct {
	Servers []*IngressServer // in order of their Gateways' age
	of      map[string][]*IngressServer
	alone   map[string][]*IngressServer // those that are Alone, by their host
	// Shared are those that share a filter chain, which finds certificates by the names that clients say.
	Shared []*IngressServer
	// Apart are those that end TLS and read requests, one for each table that says what happens to these.
	Apart []*IngressServer
}

// Alone gives the listeners of the Gateway API that have a host, as it is written.
func (o *IngressPorts) Alone(host string) []*IngressServer { return o.alone[host] }

// Of gives the servers of a Gateway object, "NAMESPACE/NAME", or that of a listener of the Gateway API's, "NAMESPACE/NAME/LISTENER".
func (o *IngressPorts) Of(gateway string) []*IngressServer { return o.of[gateway] }

// IngressServer is one of a Gateway's servers at a gateway's pods.
type IngressServer struct {
	*GatewayServer
	Gateway *Gateway
	Index   int    // among its Gateway's
	Listen  uint32 // where the pods listen for it
	// Hosts are those that it opens; what others have is left out.
	Hosts []HostFilter
	// Closed says why it is not opened, or not all of it.
	Closed []string
	// OnDemand says that its certificate is found on demand, by the name that a client says, and that it shares a filter chain.
	OnDemand bool
	// HTTP3 is the port by which clients come to it by HTTP/3, too; 0 where it does not speak it.
	HTTP3 uint32
	// NoHTTP3 is why it does not, where clients could come by UDP.
	NoHTTP3 string

	among *onDemand // the servers of its port with which it would
}

// Lets gives the names by which a VirtualService's host is asked for at the server: of it and each host that the server opens to the
// VirtualService's namespace, the narrower.
func (o *IngressServer) Lets(ns, host string) (names []string) {
	if o.Serves == PassesMesh { // nobody's routes count there
		return nil
	}
	return letsOf(o.Hosts, ns, host)
}

// Passes says whether mutual TLS for a host of the mesh is passed on at the server.
func (o *IngressServer) Passes(ns, host string) bool {
	return o.Serves == PassesMesh && len(letsOf(o.Hosts, ns, host)) > 0
}

func letsOf(hosts []HostFilter, ns, host string) (names []string) {
	for _, f := range hosts {
		if f.Namespace != "*" && f.Namespace != ns {
			continue
		}
		if name := narrower(f.Host, host); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// narrower is what two patterns have in common; "" for nothing.
func narrower(a, b string) string {
	switch {
	case Covers(a, b):
		return b
	case Covers(b, a):
		return a
	default:
		return ""
	}
}

// remembered is what was found out about ingress gateways, for as long as it is so.
type remembered[V any] struct {
	mu sync.Mutex
	of map[Ingress]V
}

func (r *remembered[V]) get(i Ingress, find func(Ingress) V) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, known := r.of[i]
	if !known {
		if r.of == nil {
			r.of = map[Ingress]V{}
		}
		v = find(i)
		r.of[i] = v
	}
	return v
}

// openedServers remembers what gateways open, until something changes about it.
type openedServers = remembered[*IngressPorts]

// Opened gives what an ingress gateway's pods open. Of what several Gateways want the first has it (gatewaysOrder): the protocol of a port, a host that
// another namespace has, also by a pattern that covers it ("*" covers what nobody else names, and what VirtualServices lead from it: taking.led), and of TLS
// each host.
func (s *Snapshot) Opened(i Ingress) *IngressPorts {
	i.Sessions, i.Topology = 0, mesh.GatewayTopology{Said: i.Topology.Said, ProxyProtocol: i.Topology.ProxyProtocol} // the rest opens nothing
	return s.opened.get(i, s.open)
}

func (s *Snapshot) open(i Ingress) *IngressPorts {
	labels := i.PodLabels()
	var list []*Gateway
	for _, g := range s.gateways {
		if s.mayOpen(g, i.Namespace) && selects(g.Selector, labels) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, s.gatewaysOrder(i.Namespace))
	services := s.ingressServices(i)
	n := 0
	for _, g := range list {
		n += g.count()
	}
	o := &IngressPorts{Servers: make([]*IngressServer, 0, n), of: make(map[string][]*IngressServer, n), alone: map[string][]*IngressServer{}}
	t, made := taking{s: s, at: i.Namespace, ports: map[openedPort]*portTaken{}}, make([]IngressServer, 0, n)
	for _, g := range list {
		for server, n := range g.all() {
			made = append(made, IngressServer{GatewayServer: server, Gateway: g, Index: n, Listen: listensAt(services, server.Port, server.Serves == ServesDatagrams)})
			o.Servers = append(o.Servers, &made[len(made)-1])
			t.take(o.Servers[len(o.Servers)-1])
		}
	}
	for at, server := range o.Servers {
		note(o.of, server.Path(), o.Servers[at:at+1:at+1])
	}
	if i.OnDemand {
		o.chooseOnDemand()
	}
	o.closeTooMany()
	if settings := s.IngressSettings(i); settings.HTTP3 {
		o.chooseHTTP3(services, settings.ProxyProtocol)
	}
	for at, server := range o.Servers {
		if server.Alone && server.Serves != NotServed {
			note(o.alone, server.GatewayServer.Hosts[0].Host, o.Servers[at:at+1:at+1])
		}
	}
	o.Apart = distinct(o.Servers)
	return o
}

// Path is how routes name it.
func (o *IngressServer) Path() string {
	return cmp.Or(o.Ref, o.Gateway.Key.Namespace+"/"+o.Gateway.Key.Name)
}

// note adds one server to those of a name. Most names have one.
func note(of map[string][]*IngressServer, name string, one []*IngressServer) {
	if is := of[name]; is != nil {
		one = append(is, one...)
	}
	of[name] = one
}

// ingressServices are the gateway's Services, as far as there are any.
func (s *Snapshot) ingressServices(i Ingress) (out []*KubeService) {
	for _, ref := range i.Services() {
		if k, ok := s.KubeService(ref); ok {
			out = append(out, k)
		}
	}
	return out
}

// openedPort is a port where something comes in: by UDP, or by TCP.
type openedPort struct {
	number uint32
	udp    bool
}

// portTaken is what servers that come first have of a port.
type portTaken struct {
	kind  ServerKind
	by    *Gateway
	hosts map[string]*Gateway
	// all are those that have "*".
	all []*IngressServer
	// several says that those are of more than one namespace.
	several bool
}

// take gives a server what others left of its port.
func (t *taking) take(o *IngressServer) {
	if o.Serves == NotServed || config.IsGatewayPort(o.Listen) || o.Listen == 0 {
		o.close(cmp.Or(o.Why, "port.number: proxies listen there themselves"))
		return
	}
	at := openedPort{o.Listen, o.Serves == ServesDatagrams}
	p := t.ports[at]
	if p == nil {
		p = &portTaken{kind: o.Serves.Family(), by: o.Gateway, hosts: map[string]*Gateway{}}
		t.ports[at] = p
	}
	if p.kind != o.Serves.Family() {
		o.close("port.protocol: the port is of another protocol by " + p.by.Key.String())
		return
	}
	if o.Serves.Nameless() {
		if has := p.hosts["*"]; has != nil {
			o.close("port.number: " + has.Key.String() + " has all of it")
			return
		}
		p.hosts["*"], o.Hosts = o.Gateway, o.GatewayServer.Hosts
		return
	}
	p.several = p.several || p.by.Key.Namespace != o.Gateway.Key.Namespace
	if len(o.GatewayServer.Hosts) == 1 && t.owner(p, o.GatewayServer.Hosts[0].Host, o) == "" { // as most are
		o.Hosts = o.GatewayServer.Hosts
		p.has(o)
		return
	}
	for _, f := range o.GatewayServer.Hosts {
		if by := t.owner(p, f.Host, o); by != "" {
			o.Closed = append(o.Closed, "hosts: "+f.Host+" is "+by)
			continue
		}
		o.Hosts = append(o.Hosts, f)
	}
	if p.has(o); len(o.Hosts) == 0 {
		o.GatewayServer = o.closedCopy()
	}
}

// has notes what a server took.
func (p *portTaken) has(o *IngressServer) {
	for _, f := range o.Hosts {
		if p.hosts[f.Host] == nil {
			p.hosts[f.Host] = o.Gateway
		}
		if f.Host == "*" {
			p.all = append(p.all, o)
		}
	}
}

// owner is the Gateway that has a host already; nil where the server may have it.
func (p *portTaken) owner(host string, o *IngressServer) *Gateway {
	if by := p.hosts[host]; by != nil && (by.Key.Namespace != o.Gateway.Key.Namespace || p.kind == PassesTLS) {
		return by
	}
	if !p.several {
		return nil
	}
	for tail := widerRule(tailOf(host)); tail != "" && tail != "*"; tail = widerRule(tail) {
		if by := p.hosts["*"+tail]; by != nil && by.Key.Namespace != o.Gateway.Key.Namespace {
			return by
		}
	}
	return nil
}

func (o *IngressServer) close(why string) {
	o.Closed = append(o.Closed, why)
	o.GatewayServer = o.closedCopy()
}

// closedCopy is the server as one that is not served.
func (o *IngressServer) closedCopy() *GatewayServer {
	closed := *o.GatewayServer
	closed.Serves = NotServed
	return &closed
}

// listensAt is where a gateway's pods listen for a port of a Gateway: as the first of their Services says that has it, and at itself where none has.
func listensAt(services []*KubeService, number uint32, udp bool) uint32 {
	for _, k := range services {
		if k.Untranslated {
			continue
		}
		for _, p := range k.Ports {
			if p.Number == number && (p.Protocol == UDP) == udp {
				return p.TargetPort
			}
		}
	}
	return number
}
