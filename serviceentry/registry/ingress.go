package registry

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Ingress is who an ingress gateway's pods are: their namespace, the labels by which Gateway objects tell them apart, and the
// Services that say where they listen. It is comparable.
type Ingress struct {
	Namespace string
	Labels    string // selectorText; what no Gateway asks for is left out
	Service   Ref
	More      string // the names of the other Services of the pods, in order, "," between
	// Policed is an AuthorizationPolicy that is for the pods, "NAMESPACE/NAME", where they open UDP: nobody could be held to it there, so nothing
	// comes in. "" where there is none.
	Policed string
	// Sessions is how many clients each port for UDP has at a time in one of the pods; 0 where they open none.
	Sessions uint32
	// OnDemand says that their agents find certificates by the names that clients say.
	OnDemand bool
	// Topology is what they say of the proxies in front of them, in place of what the mesh says.
	Topology mesh.GatewayTopology
}

// IngressSettings are the mesh's for ingress gateways, and over them what a gateway's pods say.
func (s *Snapshot) IngressSettings(i Ingress) mesh.Ingress { return s.Mesh.Ingress.With(i.Topology) }

// PodLabels are the labels.
func (i Ingress) PodLabels() map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(i.Labels, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out[k] = v
		}
	}
	return out
}

// Services are those of the pods: the one by which they would be an egress gateway comes first.
func (i Ingress) Services() (out []Ref) {
	if i.Service.IsZero() {
		return nil
	}
	out = append(out, i.Service)
	for name := range strings.SplitSeq(i.More, ",") {
		if name != "" {
			out = append(out, Ref{i.Namespace, name})
		}
	}
	return out
}

// Has says whether a Service is one of the pods'.
func (i Ingress) Has(ref Ref) bool { return slices.Contains(i.Services(), ref) }

// moreServices are the names of the Services that select pods, but for one.
func (s *Snapshot) moreServices(ns string, labels map[string]string, but Ref) string {
	var names []string
	for _, k := range s.GatewaysOf(ns, labels) {
		if k.Ref != but {
			names = append(names, k.Ref.Name)
		}
	}
	return strings.Join(names, ",")
}

// CatchAllName is what connections to a port that say nothing are asked for by: of a server that passes everything on.
func CatchAllName(port uint32) string { return ":" + strconv.FormatUint(uint64(port), 10) }

// IngressFor gives what a router's pods are as an ingress gateway, by their labels and Service, and the sessions of UDP that each may have (0
// where nobody says); false where no Gateway object selects them, or where they are an egress gateway: something leaves by the Service, or is
// led to it.
func (s *Snapshot) IngressFor(ns string, labels map[string]string, service Ref, sessions uint32) (Ingress, bool) {
	if !service.IsZero() && (service == Ref(s.Mesh.DefaultGateway) || s.IsExit(service) || s.ledTo(service)) {
		return Ingress{}, false
	}
	asked := map[string]string{}
	selected, datagrams := false, 0
	for _, g := range s.gateways {
		for k := range g.Selector {
			if v, has := labels[k]; has {
				asked[k] = v
			}
		}
		if s.mayOpen(g, ns) && selects(g.Selector, labels) {
			selected, datagrams = true, datagrams+g.datagrams
		}
	}
	i := Ingress{Namespace: ns, Labels: selectorText(asked), Service: service}
	if selected {
		i.More = s.moreServices(ns, labels, service)
	}
	if datagrams > 0 {
		i.Policed = s.policed(ns, labels)
		i.Sessions = sessionsOf(cmp.Or(sessions, defaultSessions), datagrams)
	}
	return i, selected
}

// countDatagrams counts the ports for UDP that a Gateway opens.
func (g *Gateway) countDatagrams() {
	if g == nil {
		return
	}
	g.datagrams = 0
	for server := range g.all() {
		if server.Serves == ServesDatagrams {
			g.datagrams++
		}
	}
}

// defaultSessions is how many sessions of UDP a pod may have whose agent says nothing: what the fewest files that are common allow.
const defaultSessions = 4096

// sessionsOf is the share that each port has of a pod's sessions: a quarter, or less where there are more than four ports. It is in steps of
// two, so that a port that comes or goes seldom changes those of the others, which ends their sessions.
func sessionsOf(all uint32, ports int) uint32 {
	return max(all>>max(2, bits.Len(uint(ports-1))), 1)
}

// policed is an AuthorizationPolicy by which a workload denies something, or has somebody asked: "NAMESPACE/NAME", "" for none.
func (s *Snapshot) policed(ns string, labels map[string]string) string {
	for _, p := range s.Authorizing(ns, labels).Enforced() {
		if p.Action != authz.Audit {
			return p.Key.Namespace + "/" + p.Key.Name
		}
	}
	return ""
}

// PolicedGateway is the AuthorizationPolicy for which nothing comes in by UDP at a Gateway of the Gateway API, by the labels that its pods
// are deployed with; "" where there is none.
func (s *Snapshot) PolicedGateway(key config.Key) string {
	if o := s.World().Object(key); o != nil {
		return s.policed(key.Namespace, gatewayapi.PodLabels(o))
	}
	return ""
}

// Unrefusable says that nothing may come in by UDP, since what has no room for its records is to be refused: a proxy does not do that with UDP.
func (s *Snapshot) Unrefusable() bool { return s.Mesh.Audit.WhenFull == mesh.Deny }

// ledTo says whether a VirtualService leads sidecars to hosts outside by a Service.
func (s *Snapshot) ledTo(ref Ref) bool {
	list, _ := s.leading.Get(ref.Host())
	return slices.ContainsFunc(list, func(v *VirtualService) bool { return v.At(route.Mesh) && s.LeadsBy(v, ref) })
}

// before puts Gateways in order of their age.
func (g *Gateway) before(other *Gateway) int {
	return cmp.Or(g.Created.Compare(other.Created), g.Key.Compare(other.Key))
}

// gatewaysOrder puts Gateways in the order in which they have what several want at gateways of a namespace: its own, those of the root namespace, all others; among
// equals by their age, which somebody may have before he writes what he wants.
func (s *Snapshot) gatewaysOrder(ns string) func(a, b *Gateway) int {
	rank := func(g *Gateway) rank { return s.rankOfNamespace(g.Key.Namespace, ns) }
	return func(a, b *Gateway) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), a.before(b)) }
}

// mayOpen says whether a Gateway of another namespace counts at gateways of one.
func (s *Snapshot) mayOpen(g *Gateway, ns string) bool {
	if g.Key.Kind == config.KindKubeGateway {
		return g.Key.Namespace == ns
	}
	return g.Key.Namespace == ns || !s.Mesh.Ingress.OwnNamespace
}

// LedFrom says whether VirtualServices lead from Gateways that a gateway's pods open to a host of the registry.
func (s *Snapshot) LedFrom(i Ingress, host string) bool {
	list, _ := s.leading.Get(host)
	if len(list) == 0 {
		return false
	}
	opened := s.Opened(i)
	return slices.ContainsFunc(list, func(v *VirtualService) bool {
		return v.ExportTo.Includes(i.Namespace) && slices.ContainsFunc(v.Gateways, func(g string) bool { return len(opened.of[g]) > 0 })
	})
}

// IsGateway says whether a Service is of gateways, as its own namespace or the root namespace says.
func (s *Snapshot) IsGateway(ref Ref) bool {
	if s.IsExit(ref) || ref == Ref(s.Mesh.DefaultGateway) {
		return true
	}
	k, ok := s.KubeService(ref)
	if !ok {
		return false
	}
	for _, g := range s.gateways {
		if s.says(g, ref.Namespace) && g.Selects(k) {
			return true
		}
	}
	return false
}

// IngressesIn gives the Services of a namespace whose pods Gateway objects select, in name order.
func (s *Snapshot) IngressesIn(ns string) (out []Ref) {
	s.kube.in(ns, func(k *KubeService) bool {
		for _, g := range s.gateways {
			if s.mayOpen(g, ns) && g.Selects(k) {
				out = append(out, k.Ref)
				break
			}
		}
		return true
	})
	return out
}

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
// another namespace has, also by a pattern that covers it ("*" covers what nobody else names), and of TLS each host.
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
	ports, made := map[openedPort]*portTaken{}, make([]IngressServer, 0, n)
	for _, g := range list {
		for server, n := range g.all() {
			made = append(made, IngressServer{GatewayServer: server, Gateway: g, Index: n, Listen: listensAt(services, server.Port, server.Serves == ServesDatagrams)})
			o.Servers = append(o.Servers, &made[len(made)-1])
			o.Servers[len(o.Servers)-1].take(ports)
		}
	}
	for at, server := range o.Servers {
		name := server.Ref
		if name == "" {
			name = server.Gateway.Key.Namespace + "/" + server.Gateway.Key.Name
		}
		note(o.of, name, o.Servers[at:at+1:at+1])
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
	// several says that those are of more than one namespace.
	several bool
}

// take gives a server what others left of its port.
func (o *IngressServer) take(ports map[openedPort]*portTaken) {
	if o.Serves == NotServed || config.IsGatewayPort(o.Listen) || o.Listen == 0 {
		o.close(cmp.Or(o.Why, "port.number: proxies listen there themselves"))
		return
	}
	at := openedPort{o.Listen, o.Serves == ServesDatagrams}
	p := ports[at]
	if p == nil {
		p = &portTaken{kind: o.Serves.Family(), by: o.Gateway, hosts: map[string]*Gateway{}}
		ports[at] = p
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
	if len(o.GatewayServer.Hosts) == 1 && p.owner(o.GatewayServer.Hosts[0].Host, o) == nil { // as most are
		o.Hosts = o.GatewayServer.Hosts
		if f := o.Hosts[0]; p.hosts[f.Host] == nil {
			p.hosts[f.Host] = o.Gateway
		}
		return
	}
	for _, f := range o.GatewayServer.Hosts {
		if by := p.owner(f.Host, o); by != nil {
			o.Closed = append(o.Closed, "hosts: "+f.Host+" is "+by.Key.String()+"'s")
			continue
		}
		o.Hosts = append(o.Hosts, f)
	}
	for _, f := range o.Hosts {
		if p.hosts[f.Host] == nil {
			p.hosts[f.Host] = o.Gateway
		}
	}
	if len(o.Hosts) == 0 {
		o.GatewayServer = o.closedCopy()
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
