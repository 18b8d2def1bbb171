package resolve

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Ingress is a gateway by which others come into the mesh.
type Ingress struct {
	registry.Ingress
	snap    *registry.Snapshot
	secrets registry.SecretsAt
}

// IngressOf is the one that pods are.
func IngressOf(s *registry.Snapshot, who registry.Ingress, secrets registry.SecretsAt) Ingress {
	return Ingress{who, s, secrets}
}

// IngressServer is a Gateway's server as the gateway opens it.
type IngressServer struct {
	Gateway  config.Key
	Revision string
	Field    string // "spec.servers[0]"
	Listen   uint32 // where the pods listen
	Serves   registry.ServerKind
	Hosts    []string     // that clients name: exact ones and patterns, "*" for all
	Table    IngressTable // that says what happens
	TLS      *registry.ServerTLS
	Given    []registry.Given // what it needs of Secrets; the first ones are its certificates
	Roots    *registry.Given  // who clients may be
	// Closed is why nothing comes in there, though it is opened; "" where something does.
	Closed string
}

// Servers are those that the gateway opens, in order of their Gateways' age.
func (a Ingress) Servers() (out []IngressServer) {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Serves == registry.NotServed {
			continue
		}
		s := IngressServer{
			Gateway: o.Gateway.Key, Revision: o.Gateway.Revision, Field: fmt.Sprintf("spec.servers[%d]", o.Index),
			Listen: o.Listen, Serves: o.Serves, Table: tableOf(o), TLS: o.TLS,
		}
		for _, f := range o.Hosts {
			if !slices.Contains(s.Hosts, f.Host) {
				s.Hosts = append(s.Hosts, f.Host)
			}
		}
		if s.TLS != nil {
			s.Closed = a.give(&s)
		}
		out = append(out, s)
	}
	return out
}

// give finds what a server needs of Secrets, which are the gateway's own namespace's, or says what is missing.
func (a Ingress) give(s *IngressServer) string {
	if a.secrets == registry.NoSecrets {
		return "keys are given out over TLS only, and this gateway came without"
	}
	for _, name := range s.TLS.Credentials {
		ref := registry.CredentialRef{Namespace: a.Namespace, Name: name}
		if ns, name, other := strings.Cut(name, "/"); other { // as a ReferenceGrant lets it
			ref.Namespace, ref.Name = ns, name
		}
		c, problem := a.snap.Credential(ref)
		switch {
		case c == nil:
			return problem
		case len(c.Key) == 0:
			return fmt.Sprintf("Secret %s/%s holds no certificate with a key", ref.Namespace, ref.Name)
		}
		s.Given = append(s.Given, registry.Given{Ref: ref, Pair: true})
	}
	if s.TLS.Clients == registry.NoneAsked {
		return ""
	}
	ref := registry.CredentialRef{Namespace: a.Namespace, Name: s.TLS.Roots}
	if ref.Name == "" {
		ref.Name = s.TLS.Credentials[0]
	}
	c, problem := a.snap.Credential(ref)
	switch {
	case c == nil:
		return problem
	case len(c.Roots) == 0:
		return fmt.Sprintf("Secret %s/%s holds no ca.crt, which says who clients may be", ref.Namespace, ref.Name)
	}
	s.Roots = &registry.Given{Ref: ref, Roots: true}
	return ""
}

// IngressTable is a table of rows, by which it is said what happens at servers.
type IngressTable struct {
	Serves registry.ServerKind
	Listen uint32
	Own    string // what tells it from others of its kind at the port: "PORTNAME.GATEWAY.NAMESPACE"; "" for the shared one
}

// tableOf is the table of a server. Requests inside of TLS that it ends in the usual way share one for a port: of each of its hosts a
// client may ask whose certificate covers another. Where more is asked of clients, nobody else's connection leads.
func tableOf(o *registry.OpenedServer) IngressTable {
	t := IngressTable{Serves: o.Serves, Listen: o.Listen}
	switch {
	case o.Serves == registry.ServesTLSBytes && !o.Alone: // by their TLS names, too
		t.Serves = registry.PassesTLS
	case o.Alone && o.Serves.Family() == registry.PassesTLS: // what a listener's connections lead to is its own
		t.Own = o.Name + "." + o.Gateway.Key.Name + "." + o.Gateway.Key.Namespace
		if o.Serves == registry.ServesTLSBytes {
			t.Serves = registry.PassesTLS
		}
	case o.Serves == registry.ServesTLSRequests && !o.TLS.Plain():
		t.Own = o.Name + "." + o.Gateway.Key.Name + "." + o.Gateway.Key.Namespace
	}
	return t
}

// IngressName is everything that what happens to a name at an ingress gateway depends on. Equal values mean that the same happens.
type IngressName struct {
	Name string // exact or a pattern; ":PORT" of connections that say nothing
	Rows []IngressRow
}

// IngressRow is what a table says of a name.
type IngressRow struct {
	Table  IngressTable
	Serves registry.ServerKind
	Port   uint32 // as clients know it: the Service's
	Listen uint32
	// Redirect says that requests have to come by TLS.
	Redirect bool
	// Elsewhere says that the name is another table's of the port, which a connection that came here does not lead to.
	Elsewhere bool
	// Alone says that the name is the listener's, whether a route is for it or not (registry.GatewayServer).
	Alone bool
	By    []*registry.VirtualService // in order of age
	HTTP  []route.HTTP
	L4    []route.L4
	Ends  map[string]IngressEnd // by their names
}

// IngressEnd is a destination as the gateway reaches it.
type IngressEnd struct {
	Reach
	Closed string // why it is not reached
	Fix    string
}

// Name gathers what counts for a name; false where nothing of the gateway's is about it.
func (a Ingress) Name(name string) (IngressName, bool) {
	n := IngressName{Name: name}
	list, redirected := a.snap.Asking(name)
	opened := a.snap.Opened(a.Ingress)
	older := a.snap.AskedAlso(name)
	for _, v := range list {
		if !v.ExportTo.Includes(a.Namespace) {
			continue
		}
		for _, at := range v.Gateways {
			for _, o := range opened.Of(at) {
				if a.lets(o, v, name) && !narrowed(opened, o, name) {
					n.add(a, opened, o, v, older)
				}
			}
		}
	}
	n.order()
	for _, key := range redirected {
		n.alone(a.snap, opened, key)
		for _, o := range opened.Of(key.Namespace + "/" + key.Name) {
			if o.Redirect && slices.ContainsFunc(o.Hosts, func(f registry.HostFilter) bool { return f.Host == name }) {
				n.row(o).Redirect = true
			}
		}
	}
	n.turnAway(opened)
	return n, len(n.Rows) > 0
}

// lets says whether a server takes a VirtualService's routes for a name.
func (a Ingress) lets(o *registry.OpenedServer, v *registry.VirtualService, name string) bool {
	if o.Serves == registry.NotServed || (o.Serves == registry.ServesBytes) != strings.HasPrefix(name, ":") {
		return false
	}
	if o.Serves == registry.ServesBytes && name != registry.NameOfPort(o.Port) {
		return false
	}
	for _, h := range v.Hosts {
		names := o.Lets(v.Key.Namespace, h)
		if len(names) > 0 && (o.Serves == registry.ServesBytes || slices.Contains(names, name)) {
			return true
		}
	}
	return false
}

// row is the name's row of a server's table.
func (n *IngressName) row(o *registry.OpenedServer) *IngressRow {
	table := tableOf(o)
	for i := range n.Rows {
		if n.Rows[i].Table == table {
			return &n.Rows[i]
		}
	}
	n.Rows = append(n.Rows, IngressRow{Table: table, Serves: o.Serves, Port: o.Port, Listen: o.Listen, Ends: map[string]IngressEnd{}})
	return &n.Rows[len(n.Rows)-1]
}

// add gives the routes of a VirtualService to a server's row. The oldest one's namespace has the name; whoever has a pattern that covers
// it, and is older still, has it too.
func (n *IngressName) add(a Ingress, opened *registry.Opened, o *registry.OpenedServer, v *registry.VirtualService, older []*registry.VirtualService) {
	taken := func(x *registry.VirtualService) bool {
		return x.Key.Namespace != v.Key.Namespace && x.Created.Before(v.Created) && x.ExportTo.Includes(a.Namespace) && slices.ContainsFunc(x.Gateways, func(at string) bool {
			return slices.ContainsFunc(opened.Of(at), func(other *registry.OpenedServer) bool {
				return other.Serves != registry.NotServed && tableOf(other) == tableOf(o) && slices.ContainsFunc(x.Hosts, func(h string) bool {
					return slices.ContainsFunc(other.Lets(x.Key.Namespace, h), func(p string) bool { return p != "*" && registry.Covers(p, n.Name) })
				})
			})
		})
	}
	if !o.Alone && slices.ContainsFunc(older, taken) {
		return
	}
	r := n.row(o)
	if !o.Alone && len(r.By) > 0 && r.By[0].Key.Namespace != v.Key.Namespace {
		return
	}
	place := route.Place{Gateway: cmp.Or(o.Ref, o.Gateway.Key.Namespace+"/"+o.Gateway.Key.Name), Ports: []uint32{o.Port}, Namespace: a.Namespace, Source: route.Labels(a.PodLabels())}
	switch o.Serves {
	case registry.ServesRequests, registry.ServesTLSRequests:
		if r.Alone = o.Alone; r.Alone {
			r.HTTP = append(r.HTTP, everyAt(v.HTTP, place)...)
		} else {
			r.HTTP = route.Join(r.HTTP, route.HTTPAt(v.HTTP, place))
		}
	case registry.PassesTLS:
		r.L4 = append(r.L4, anywhere(route.L4At(v.TLS, place))...)
	default:
		r.L4 = append(r.L4, anywhere(route.L4At(v.TCP, place))...)
	}
	if slices.Contains(r.By, v) {
		return
	}
	r.By = append(r.By, v)
	for host := range v.Ends() {
		if _, known := r.Ends[host]; !known {
			r.Ends[host] = a.end(v, host)
		}
	}
}

// narrowed says whether a name is that of another listener of the Gateway, whose host is narrower.
func narrowed(opened *registry.Opened, o *registry.OpenedServer, name string) bool {
	if !o.Alone {
		return false
	}
	own := o.GatewayServer.Hosts[0].Host
	return slices.ContainsFunc(opened.Servers, func(x *registry.OpenedServer) bool {
		if !x.Alone || x.Listen != o.Listen || x.Ref == o.Ref || x.Serves == registry.NotServed {
			return false
		}
		host := x.GatewayServer.Hosts[0].Host
		return registry.Covers(host, name) && host != own && registry.Covers(own, host)
	})
}

// alone gives a listener's host a row, that no wider listener's routes are followed for it.
func (n *IngressName) alone(s *registry.Snapshot, opened *registry.Opened, gateway config.Key) {
	g := s.Gateway(gateway)
	if g == nil {
		return
	}
	for i := range g.Servers {
		for _, o := range opened.Of(g.Servers[i].Ref) {
			if o.Alone && o.Serves != registry.NotServed && o.GatewayServer.Hosts[0].Host == n.Name {
				n.row(o).Alone = true
			}
		}
	}
}

// everyAt gives the routes that count at a place, with all that is behind one which means every request: they are yet to be put in order.
func everyAt(routes []route.HTTP, p route.Place) (out []route.HTTP) {
	for i := range routes {
		if r, ok := routes[i].At(p); ok {
			out = append(out, r)
		}
	}
	return out
}

// order puts the routes of several objects of the Gateway API in their order; they come in that of the objects' age.
func (n *IngressName) order() {
	for i := range n.Rows {
		if r := &n.Rows[i]; r.Alone {
			slices.SortStableFunc(r.HTTP, func(a, b route.HTTP) int { return route.Precedence(&a, &b) })
		}
	}
}

// turnAway says, in the port's other tables of requests inside of TLS, that the name is not theirs.
func (n *IngressName) turnAway(opened *registry.Opened) {
	for i := range slices.Clone(n.Rows) {
		own := n.Rows[i]
		if own.Serves.Family() != registry.PassesTLS {
			continue
		}
		for _, o := range opened.Servers {
			if o.Serves != registry.ServesTLSRequests || o.Listen != own.Listen {
				continue
			}
			if r := n.row(o); len(r.By) == 0 && !r.Alone {
				r.Elsewhere = true
			}
		}
	}
}

// end finds a destination of a VirtualService as the gateway reaches it: a host of the mesh that both the VirtualService's namespace and
// the gateway's see, and never a gateway, nor the control plane.
func (a Ingress) end(v *registry.VirtualService, host string) IngressEnd {
	svc := a.snap.Visible(host, a.Namespace, nil)
	theirs := a.snap.Visible(host, v.Key.Namespace, nil)
	if svc == nil || theirs == nil || svc.Source != theirs.Source {
		return IngressEnd{Closed: "is no host that namespaces " + v.Key.Namespace + " and " + a.Namespace + " both see", Fix: "name a Service, or export it to both"}
	}
	if why, fix := a.unfit(svc); why != "" {
		return IngressEnd{Closed: why, Fix: fix}
	}
	if ref, kube := kubeOf(svc.Host); kube && v.Key.Kind != config.KindVirtualService {
		if by, asks := a.snap.BackendTLS(ref); asks {
			return IngressEnd{Closed: "takes TLS by " + by.String() + ", which gateways do not speak", Fix: "remove it, or write TLS settings of a DestinationRule"}
		}
	}
	return IngressEnd{Reach: a.reach(svc)}
}

// unfit says why an ingress gateway does not lead to a registration, and what to do.
func (a Ingress) unfit(svc *registry.Service) (why, fix string) {
	ref, _ := kubeOf(svc.Host)
	switch {
	case svc.External:
		return "is outside of the mesh, and ingress gateways lead inside", "name a Service of the mesh"
	case svc.Wildcard():
		return "is a pattern", "name one host"
	case !svc.Tabled() && svc.Resolution != registry.Static:
		return "is looked up by name, or by the address that a client chose", "give it resolution STATIC and endpoints, or name a Service"
	case svc.Tabled() && (ref == a.Service || a.snap.IsGateway(ref)):
		return "is a gateway itself", "name the Service that is behind it"
	case slices.ContainsFunc(svc.Addresses, func(p netip.Prefix) bool { return p.IsSingleIP() && slices.Contains(a.snap.Doors(), p.Addr()) }):
		return "is a gateway of the mesh, or its control plane", "name a Service of an app"
	}
	return "", ""
}

func (a Ingress) reach(svc *registry.Service) Reach {
	r := Reach{Service: svc, Rule: a.snap.Rule(svc, a.Namespace, "")}
	r.Far = a.snap.FarEnd(svc, r.Rule, registry.Place{Kind: registry.AtGateway, Namespace: a.Namespace, Secrets: a.secrets})
	return r
}

// Routes are the row's, in order.
func (r *IngressRow) Routes() []Route {
	if len(r.By) == 0 {
		return nil
	}
	if r.Serves.ReadsRequests() {
		return orUnrouted(userRequests(r.HTTP, r.By[0], func(d route.Destination) To { return r.to(d, Requests) }), len(r.HTTP), Requests, r.By[0])
	}
	if len(r.L4) == 0 {
		return orUnrouted(nil, 0, Connections, r.By[0])
	}
	return userConnections(r.L4, r.By[0], Anyhow, func(d route.Destination) To { return r.to(d, Connections) })
}

// orUnrouted is for a VirtualService none of whose routes counts here: there is no host of its own that would be reached.
func orUnrouted(routes []Route, n int, kind Kind, by *registry.VirtualService) []Route {
	if n > 0 {
		return routes
	}
	return []Route{{For: kind, Does: Unrouted, By: by.Key, Revision: by.Revision}}
}

// to is a destination of what came for the row.
func (r *IngressRow) to(d route.Destination, kind Kind) To {
	end := r.Ends[d.Host]
	by := Route{By: r.By[0].Key, Revision: r.By[0].Revision}
	t := To{Reach: &end.Reach, Subset: d.Subset}
	svc := end.Service
	if svc == nil {
		if d.Host == "" {
			end.Closed, end.Fix = "is no Service, or one that no ReferenceGrant lets be named", "see the route's status"
		}
		return t.close(by, d, end.Closed, end.Fix)
	}
	number := d.PortOf(numbersOf(svc), r.Port)
	port, ok := svc.Port(number)
	if !ok || port.Protocol == registry.UDP {
		return t.close(by, d, fmt.Sprintf("has no port %d for this", number), "name one that it is registered with")
	}
	t.Port = port
	if why, fix := t.subsetProblem(); why != "" {
		return t.close(by, d, why, fix)
	}
	if c, closed := end.Far.Closed[number]; closed {
		t.Closed = &c
		return t
	}
	if kind == Requests && port.Protocol == registry.TLS && end.Rule.TLSFor(number) == nil {
		return t.close(by, d, fmt.Sprintf("takes TLS at port %d, and requests to Services of the mesh are sent as they are", number), "name a port of plain HTTP")
	}
	return t
}

// IngressTarget is a host of the mesh that an ingress gateway leads to.
type IngressTarget struct {
	Reach
	Connect time.Duration // the mesh's connectTimeout
	// Refused are addresses that the gateway does not connect to: its own, the mesh's other doors'.
	Refused []netip.Addr
}

// Target gathers what counts for a host of the registry; false where the gateway does not lead there.
func (a Ingress) Target(host string) (IngressTarget, bool) {
	if !a.snap.LedFrom(a.Ingress, host) {
		return IngressTarget{}, false
	}
	svc := a.snap.Visible(host, a.Namespace, nil)
	if svc == nil {
		return IngressTarget{}, false
	}
	if why, _ := a.unfit(svc); why != "" {
		return IngressTarget{}, false
	}
	return IngressTarget{Reach: a.reach(svc), Connect: a.snap.Mesh.ConnectTimeout, Refused: a.refused()}, true
}

// refused are the doors, and the gateway's own pods.
func (a Ingress) refused() []netip.Addr {
	out := slices.Clone(a.snap.Doors())
	if set := a.snap.EndpointSet(a.Service.Host()); set != nil && !a.Service.IsZero() {
		for _, e := range set.List {
			if addr, err := netip.ParseAddr(e.Address); err == nil {
				out = append(out, addr.Unmap())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
