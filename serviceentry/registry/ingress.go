package registry

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Ingress is who an ingress gateway's pods are: their namespace, the labels by which Gateway objects tell them apart, and the
// Service that says where they listen. It is comparable.
type Ingress struct {
	Namespace string
	Labels    string // selectorText; what no Gateway asks for is left out
	Service   Ref
}

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

// NameOfPort is what connections to a port that say nothing are asked for by: of a server that passes everything on.
func NameOfPort(port uint32) string { return ":" + strconv.FormatUint(uint64(port), 10) }

// IngressFor gives what a router's pods are as an ingress gateway, by their labels and Service; false where no Gateway object selects
// them, or where they are an egress gateway: something leaves by the Service, or is led to it.
func (s *Snapshot) IngressFor(ns string, labels map[string]string, service Ref) (Ingress, bool) {
	if !service.IsZero() && (service == Ref(s.Mesh.DefaultGateway) || s.IsExit(service) || s.ledTo(service)) {
		return Ingress{}, false
	}
	asked := map[string]string{}
	selected := false
	for _, g := range s.gateways {
		for k := range g.Selector {
			if v, has := labels[k]; has {
				asked[k] = v
			}
		}
		selected = selected || s.mayOpen(g, ns) && selects(g.Selector, labels)
	}
	return Ingress{ns, selectorText(asked), service}, selected
}

// ledTo says whether a VirtualService leads sidecars to hosts outside by a Service.
func (s *Snapshot) ledTo(ref Ref) bool {
	list, _ := s.leading.Get(ref.Host())
	return slices.ContainsFunc(list, func(v *VirtualService) bool { return v.At(route.Mesh) && s.LeadsBy(v, ref) })
}

// mayOpen says whether a Gateway of another namespace counts at gateways of one.
func (s *Snapshot) mayOpen(g *Gateway, ns string) bool {
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

// asker is an object by which a name may be asked for.
type asker struct {
	by     config.Key
	routes *VirtualService // nil: a Gateway
}

// Names goes through what ingress gateways may be asked for; of TCP, ":PORT".
func (s *Snapshot) Names() iter.Seq[string] {
	return func(yield func(string) bool) { s.names.Walk(func(name string, _ []asker) bool { return yield(name) }) }
}

// HasName says whether there is such a name.
func (s *Snapshot) HasName(name string) bool { _, ok := s.names.Get(name); return ok }

// Asking gives the VirtualServices by which a name may be asked for, in order of age, and the Gateways that have it redirected.
func (s *Snapshot) Asking(name string) (list []*VirtualService, gateways []config.Key) {
	all, _ := s.names.Get(name)
	for _, a := range all {
		if a.routes == nil {
			gateways = append(gateways, a.by)
		} else {
			list = append(list, a.routes)
		}
	}
	slices.SortFunc(list, (*VirtualService).compare)
	return list, gateways
}

// AskedAlso gives, in order of age, the VirtualServices by which patterns that cover a name are asked for, but for "*".
func (s *Snapshot) AskedAlso(name string) (out []*VirtualService) {
	for pattern := name; ; {
		next := widerRule(tailOf(pattern))
		if next == "" || next == "*" {
			break
		}
		pattern = "*" + next
		list, _ := s.Asking(pattern)
		out = append(out, list...)
	}
	slices.SortFunc(out, (*VirtualService).compare)
	return out
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
		if ns := g.Key.Namespace; len(g.Selector) > 0 && (ns == ref.Namespace || ns == s.Mesh.RootNamespace) && g.Selects(k) {
			return true
		}
	}
	return false
}

// IngressesIn gives the Services of a namespace whose pods Gateway objects select, in name order.
func (s *Snapshot) IngressesIn(ns string) (out []Ref) {
	s.kube.WalkPrefix(ns+"/", func(_ string, k *KubeService) bool {
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

// Opened is what an ingress gateway's pods open.
type Opened struct {
	Servers []*OpenedServer // in order of their Gateways' age
	of      map[string][]*OpenedServer
}

// Of gives the servers of a Gateway object, "NAMESPACE/NAME".
func (o *Opened) Of(gateway string) []*OpenedServer { return o.of[gateway] }

// OpenedServer is one of a Gateway's servers at a gateway's pods.
type OpenedServer struct {
	*GatewayServer
	Gateway *Gateway
	Index   int    // among its Gateway's
	Listen  uint32 // where the pods listen for it
	// Hosts are those that it opens; what others have is left out.
	Hosts []HostFilter
	// Closed says why it is not opened, or not all of it.
	Closed []string
}

// Lets gives the names by which a VirtualService's host is asked for at the server: of it and each host that the server opens to the
// VirtualService's namespace, the narrower.
func (o *OpenedServer) Lets(ns, host string) (names []string) { return letsOf(o.Hosts, ns, host) }

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

// openedServers remembers what gateways open, until something changes about it.
type openedServers struct {
	mu sync.Mutex
	of map[Ingress]*Opened
}

// Opened gives what an ingress gateway's pods open. Of what several Gateways want the oldest has it: the protocol of a port, a host that
// another namespace has, also by a pattern that covers it ("*" covers what nobody else names), and of TLS each host.
func (s *Snapshot) Opened(i Ingress) *Opened {
	s.opened.mu.Lock()
	defer s.opened.mu.Unlock()
	if o := s.opened.of[i]; o != nil {
		return o
	}
	if s.opened.of == nil {
		s.opened.of = map[Ingress]*Opened{}
	}
	o := s.open(i)
	s.opened.of[i] = o
	return o
}

func (s *Snapshot) open(i Ingress) *Opened {
	labels := i.PodLabels()
	var list []*Gateway
	for _, g := range s.gateways {
		if s.mayOpen(g, i.Namespace) && selects(g.Selector, labels) {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, func(a, b *Gateway) int { return cmp.Or(a.Created.Compare(b.Created), a.Key.Compare(b.Key)) })
	k, _ := s.KubeService(i.Service)
	o := &Opened{of: map[string][]*OpenedServer{}}
	ports := map[uint32]*portTaken{}
	for _, g := range list {
		for n := range g.Servers {
			server := &OpenedServer{GatewayServer: &g.Servers[n], Gateway: g, Index: n, Listen: listensAt(k, g.Servers[n].Port)}
			o.Servers = append(o.Servers, server)
			server.take(ports)
			name := g.Key.Namespace + "/" + g.Key.Name
			o.of[name] = append(o.of[name], server)
		}
	}
	return o
}

// portTaken is what older servers have of a port.
type portTaken struct {
	kind  ServerKind
	by    *Gateway
	hosts map[string]*Gateway
}

// take gives a server what older ones left of its port.
func (o *OpenedServer) take(ports map[uint32]*portTaken) {
	if o.Serves == NotServed || config.IsBoundPort(o.Listen) || o.Listen == 0 {
		o.close(cmp.Or(o.Why, "port.number: proxies listen there themselves"))
		return
	}
	p := ports[o.Listen]
	if p == nil {
		p = &portTaken{kind: o.Serves.Family(), by: o.Gateway, hosts: map[string]*Gateway{}}
		ports[o.Listen] = p
	}
	if p.kind != o.Serves.Family() {
		o.close("port.protocol: the port is of another protocol by the older " + p.by.Key.String())
		return
	}
	if o.Serves == ServesBytes {
		if has := p.hosts["*"]; has != nil {
			o.close("port.number: the older " + has.Key.String() + " has all of it")
			return
		}
		p.hosts["*"], o.Hosts = o.Gateway, o.GatewayServer.Hosts
		return
	}
	for _, f := range o.GatewayServer.Hosts {
		if by := p.owner(f.Host, o); by != nil {
			o.Closed = append(o.Closed, "hosts: "+f.Host+" is the older "+by.Key.String()+"'s")
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

// owner is the older Gateway that has a host; nil where the server may have it.
func (p *portTaken) owner(host string, o *OpenedServer) *Gateway {
	if by := p.hosts[host]; by != nil && (by.Key.Namespace != o.Gateway.Key.Namespace || p.kind == PassesTLS) {
		return by
	}
	for tail := widerRule(tailOf(host)); tail != "" && tail != "*"; tail = widerRule(tail) {
		if by := p.hosts["*"+tail]; by != nil && by.Key.Namespace != o.Gateway.Key.Namespace {
			return by
		}
	}
	return nil
}

func (o *OpenedServer) close(why string) {
	o.Closed = append(o.Closed, why)
	o.GatewayServer = o.closedCopy()
}

// closedCopy is the server as one that is not served.
func (o *OpenedServer) closedCopy() *GatewayServer {
	closed := *o.GatewayServer
	closed.Serves = NotServed
	return &closed
}

// listensAt is where a gateway's pods listen for a port of their Service.
func listensAt(k *KubeService, number uint32) uint32 {
	if k != nil {
		for _, p := range k.Ports {
			if p.Number == number {
				return p.TargetPort
			}
		}
	}
	return number
}

// putLeading notes a VirtualService with the hosts that it leads to. Those of ingress gateways are looked at again.
func (b *batch) putLeading(host string, v *VirtualService, there bool) {
	old, _ := b.leading.Get(host)
	list := slices.DeleteFunc(slices.Clone(old), func(x *VirtualService) bool { return x.Key == v.Key })
	if there {
		list = append(list, v)
		slices.SortFunc(list, (*VirtualService).compare)
	}
	if len(list) == 0 {
		b.leading.Delete(host)
	} else {
		b.leading.Put(host, list)
	}
	if v.forGateways() {
		b.touched[host] = true
	}
	if v.At(route.Mesh) {
		b.changed.Gateways = true // it may lead to an egress gateway
	}
}

// forGateways says whether it is for any Gateway object.
func (v *VirtualService) forGateways() bool {
	return slices.ContainsFunc(v.Gateways, func(g string) bool { return g != route.Mesh })
}

// touchServed marks a Gateway, and the names that others have where it serves hosts: of which of them they are may change.
func (b *batch) touchServed(g *Gateway) {
	b.next.opened, b.changed.Gateways = &openedServers{}, true
	if g == nil {
		return
	}
	b.askedAgain[g.Key] = true
	for _, s := range g.Servers {
		b.nameCovered(NameOfPort(s.Port))
		for _, f := range s.Hosts {
			b.nameCovered(f.Host)
		}
	}
	for key := range b.index.virtual.boundTo[g.Key.Namespace+"/"+g.Key.Name] {
		b.askedAgain[key] = true
	}
}

// nameCovered marks a name, and those that a pattern covers.
func (b *batch) nameCovered(pattern string) {
	if pattern == "" || pattern[0] != '*' {
		b.named[pattern] = true
		return
	}
	b.names.Walk(func(name string, _ []asker) bool {
		if Covers(pattern, name) {
			b.named[name] = true
		}
		return true
	})
}

// settleNamesAsked finds what ingress gateways are asked for by the objects that changed, and what is to be looked at again for it.
func (b *batch) settleNamesAsked() {
	for key := range b.askedAgain {
		was, is := b.index.names[key], b.namesOf(key)
		for _, name := range was {
			b.nameCovered(name)
			b.putName(name, key, false)
		}
		for _, name := range is {
			b.putName(name, key, true)
		}
		for _, name := range is {
			b.nameCovered(name)
		}
		if delete(b.index.names, key); len(is) > 0 {
			b.index.names[key] = is
		}
	}
	b.changed.Names = slices.Sorted(maps.Keys(b.named))
}

func (b *batch) putName(name string, key config.Key, there bool) {
	old, _ := b.names.Get(name)
	list := slices.DeleteFunc(slices.Clone(old), func(a asker) bool { return a.by == key })
	if there {
		list = append(list, asker{key, b.index.virtual.made[key]})
		slices.SortFunc(list, func(x, y asker) int { return x.by.Compare(y.by) })
	}
	if len(list) == 0 {
		b.names.Delete(name)
	} else {
		b.names.Put(name, list)
	}
}

// namesOf is what ingress gateways are asked for by an object: of a VirtualService, where its hosts and those of Gateways that it is for
// meet; of a Gateway, the hosts whose requests it redirects.
func (b *batch) namesOf(key config.Key) []string {
	found := map[string]bool{}
	if g := b.next.gateways[key]; g != nil {
		for _, s := range g.Servers {
			for _, f := range s.Hosts {
				if s.Redirect {
					found[f.Host] = true
				}
			}
		}
	}
	v := b.index.virtual.made[key]
	if v == nil {
		return slices.Sorted(maps.Keys(found))
	}
	for _, at := range v.Gateways {
		ns, name, _ := strings.Cut(at, "/")
		g := b.next.gateways[config.Key{Kind: config.KindGateway, Namespace: ns, Name: name}]
		if g == nil {
			continue
		}
		for _, s := range g.Servers {
			for _, host := range v.Hosts {
				for _, n := range letsOf(s.Hosts, v.Key.Namespace, host) {
					if s.Serves == ServesBytes {
						n = NameOfPort(s.Port)
					}
					found[n] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
