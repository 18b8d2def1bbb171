package resolve

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

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
	// Datagrams are the Services that a port for UDP leads to.
	Datagrams []UDPService
	// Policed is the AuthorizationPolicy for which nothing comes in (registry.Ingress).
	Policed string
	// Unrefusable says that nothing comes in by UDP, since it could not be refused where records have no room (registry.Snapshot.Unrefusable).
	Unrefusable bool
	// Redirect says that requests have to come by TLS.
	Redirect bool
	// Elsewhere says that the name is another table's of the port, which a connection that came here does not lead to.
	Elsewhere bool
	// Alone says that the name is the listener's, whether a route is for it or not (registry.GatewayServer).
	Alone bool
	// Own is the listener's host, where only connections lead to the name that were opened for it, or for a name below it: others share the table. ""
	// where all that come do.
	Own  string
	By   []*registry.VirtualService // whose routes count, those of the Gateway's namespace first, then in order of age; where nobody's do, one who has the name
	HTTP []route.HTTP
	L4   []route.L4
	Ends map[registry.End]IngressDestination
}

// IngressDestination is a destination as the gateway reaches it.
type IngressDestination struct {
	ReachedDestination
	Closed string // why it is not reached
	Fix    string
}

// Name gathers what counts for a name; false where nothing of the gateway's is about it.
func (a Ingress) Name(name string) (IngressName, bool) {
	n := IngressName{Name: name}
	list, redirected := a.snap.Asking(name)
	opened := a.snap.Opened(a.Ingress)
	older := a.snap.AskedAlso(name)
	for _, own := range []bool{true, false} {
		for _, v := range list {
			if !v.ExportTo.Includes(a.Namespace) {
				continue
			}
			for _, at := range v.Gateways {
				is := a.snap.AtGateway(v, at)
				if is == nil {
					continue
				}
				for _, o := range opened.Of(at) {
					if ownOf(o, v) == own && a.lets(o, v, name) && !narrowed(opened, o, name) {
						n.add(a, opened, o, is, older)
					}
				}
			}
		}
	}
	n.order()
	n.alone(opened)
	for _, key := range redirected {
		for _, o := range opened.Of(key.Namespace + "/" + key.Name) {
			if o.Redirect && slices.ContainsFunc(o.Hosts, func(f registry.HostFilter) bool { return f.Host == name }) {
				if r := n.row(o); a.redirects(o.Gateway.Key.Namespace, r) {
					r.Redirect = true
				}
			}
		}
	}
	n.turnAway(opened)
	for i := range n.Rows {
		if r := &n.Rows[i]; r.Serves == registry.ServesDatagrams {
			r.Datagrams = a.datagrams(r.Routes())
		}
	}
	return n, len(n.Rows) > 0
}

// ownOf says whether a VirtualService is of the namespace of the Gateway that it is bound to. What that leads somewhere nobody else does, whoever was
// there first: age is had before anything is written in an object.
func ownOf(o *registry.IngressServer, v *registry.VirtualService) bool {
	return v.Key.Namespace == o.Gateway.Key.Namespace
}

// redirects says whether Gateways of a namespace may have a row's requests redirected: what somebody else leads somewhere, by Gateways that are others', is his.
func (a Ingress) redirects(ns string, r *IngressRow) bool {
	if len(r.By) == 0 || ns == a.Namespace || ns == a.snap.Mesh.RootNamespace || ns == r.By[0].Key.Namespace {
		return true
	}
	return slices.ContainsFunc(r.By[0].Gateways, func(at string) bool { return strings.HasPrefix(at, ns+"/") })
}

// HasUDP says whether any of it comes by UDP.
func (n *IngressName) HasUDP() bool {
	return slices.ContainsFunc(n.Rows, func(r IngressRow) bool { return r.Serves == registry.ServesDatagrams })
}

// lets says whether a server takes a VirtualService's routes for a name.
func (a Ingress) lets(o *registry.IngressServer, v *registry.VirtualService, name string) bool {
	if o.Serves == registry.NotServed || o.Serves.Nameless() != strings.HasPrefix(name, ":") {
		return false
	}
	if o.Serves.Nameless() && (name != registry.CatchAllName(o.Port) || (o.Serves == registry.ServesDatagrams) != (v.Key.Kind == config.KindUDPRoute)) {
		return false
	}
	for _, h := range v.Hosts {
		names := o.Lets(v.Key.Namespace, h)
		if len(names) > 0 && (o.Serves.Nameless() || slices.Contains(names, name)) {
			return true
		}
	}
	return false
}

// row is the name's row of a server's table.
func (n *IngressName) row(o *registry.IngressServer) *IngressRow {
	table := tableOf(o)
	for i := range n.Rows {
		if n.Rows[i].Table == table {
			return &n.Rows[i]
		}
	}
	row := IngressRow{Table: table, Serves: o.Serves, Port: o.Port, Listen: o.Listen, Ends: map[registry.End]IngressDestination{}}
	if o.Alone && o.OnDemand {
		row.Own = o.GatewayServer.Hosts[0].Host
	}
	n.Rows = append(n.Rows, row)
	return &n.Rows[len(n.Rows)-1]
}

// add gives the routes of a VirtualService to a server's row. The first one's namespace has the name of those with routes that count there; whoever has a pattern that covers
// it, and is older still, has it too, but for names of the Gateway's own namespace.
func (n *IngressName) add(a Ingress, opened *registry.IngressPorts, o *registry.IngressServer, v *registry.VirtualService, older []*registry.VirtualService) {
	taken := func(x *registry.VirtualService) bool {
		return x.Key.Namespace != v.Key.Namespace && !ownOf(o, v) && x.Created.Before(v.Created) && a.wider(n.Name, opened, o, x, true)
	}
	if !o.Alone && slices.ContainsFunc(older, taken) {
		return
	}
	place := a.place(o)
	if !o.Alone && !v.CountsAt(o.Serves, place) {
		n.addIdle(a, opened, o, v, older)
		return
	}
	r := n.row(o)
	if o.Serves == registry.ServesDatagrams {
		r.Policed, r.Unrefusable = a.Policed, a.snap.Unrefusable()
	}
	if !o.Alone && r.idle() {
		r.By = nil // nobody's routes counted yet
	}
	if !o.Alone && len(r.By) > 0 && r.By[0].Key.Namespace != v.Key.Namespace {
		return
	}
	switch o.Serves {
	case registry.ServesRequests, registry.ServesTLSRequests:
		if r.Alone = o.Alone; r.Alone {
			r.HTTP = append(r.HTTP, everyAt(v.HTTP, place)...)
		} else {
			r.HTTP = route.Join(r.HTTP, v.HTTPAt(place))
		}
	case registry.PassesTLS:
		r.L4 = route.JoinL4(append(r.L4, anywhere(v.TLSAt(place))...))
	default:
		r.L4 = route.JoinL4(append(r.L4, anywhere(v.TCPAt(place))...))
	}
	if slices.Contains(r.By, v) {
		return
	}
	r.By = append(r.By, v)
	for end := range v.EndsBy() {
		if _, known := r.Ends[end]; !known {
			r.Ends[end] = a.end(end)
		}
	}
}

// addIdle notes a VirtualService none of whose routes counts at a server, as in Istio, where it has nothing there: only where nobody else has the name, nor a pattern
// that covers it, so that what is answered then names an object.
func (n *IngressName) addIdle(a Ingress, opened *registry.IngressPorts, o *registry.IngressServer, v *registry.VirtualService, older []*registry.VirtualService) {
	if !o.Serves.Nameless() && n.Name != "*" {
		has := func(x *registry.VirtualService) bool { return a.wider(n.Name, opened, o, x, false) }
		if slices.ContainsFunc(older, has) || a.snap.AnyAsking("*", has) {
			return
		}
	}
	if r := n.row(o); len(r.By) == 0 {
		r.By = []*registry.VirtualService{v}
	}
}

// idle says that nobody's routes count, though somebody has the name.
func (r *IngressRow) idle() bool { return !r.Alone && len(r.HTTP) == 0 && len(r.L4) == 0 }

// wider says whether a VirtualService has a pattern that covers a name in the table of a server; where its routes are asked for, one of them counts there, and the
// pattern is not the one for all.
func (a Ingress) wider(name string, opened *registry.IngressPorts, o *registry.IngressServer, x *registry.VirtualService, routes bool) bool {
	return x.ExportTo.Includes(a.Namespace) && slices.ContainsFunc(x.Gateways, func(at string) bool {
		return a.snap.AtGateway(x, at) != nil && slices.ContainsFunc(opened.Of(at), func(other *registry.IngressServer) bool {
			return other.Serves != registry.NotServed && tableOf(other) == tableOf(o) && (!routes || x.CountsAt(other.Serves, a.place(other))) && slices.ContainsFunc(x.Hosts, func(h string) bool {
				return slices.ContainsFunc(other.Lets(x.Key.Namespace, h), func(p string) bool {
					return p != name && (p != "*" || !routes) && registry.Covers(p, name)
				})
			})
		})
	})
}

// place is a server as routes ask for it.
func (a Ingress) place(o *registry.IngressServer) route.Scope {
	return route.Scope{Gateway: o.Path(), Ports: []uint32{o.Port}, Namespace: a.Namespace, Source: route.Labels(a.PodLabels()), ReadsTokens: true}
}

// narrowed says whether a name is that of another listener of the Gateway, whose host is narrower.
func narrowed(opened *registry.IngressPorts, o *registry.IngressServer, name string) bool {
	if !o.Alone {
		return false
	}
	own := o.GatewayServer.Hosts[0].Host
	if !strings.HasPrefix(own, "*") {
		return false
	}
	for _, host := range widening(name) {
		if host == own {
			return false
		}
		if slices.ContainsFunc(opened.Alone(host), func(x *registry.IngressServer) bool { return x.Listen == o.Listen && registry.Covers(own, host) }) {
			return true
		}
	}
	return false
}

// alone gives a listener's host a row, that no wider listener's routes are followed for it.
func (n *IngressName) alone(opened *registry.IngressPorts) {
	for _, o := range opened.Alone(n.Name) {
		n.row(o).Alone = true
	}
}

// everyAt gives the routes that count at a place, with all that is behind one which means every request: they are yet to be put in order.
func everyAt(routes []route.HTTP, p route.Scope) (out []route.HTTP) {
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
func (n *IngressName) turnAway(opened *registry.IngressPorts) {
	for i := range slices.Clone(n.Rows) {
		own := n.Rows[i]
		if own.Serves.Family() != registry.PassesTLS || own.Own != "" { // there are many such names, of which other tables say one thing (Ingress.TurnsAway)
			continue
		}
		for _, o := range opened.Apart {
			if o.Listen != own.Listen {
				continue
			}
			if r := n.row(o); len(r.By) == 0 && !r.Alone {
				r.Elsewhere = true
			}
		}
	}
}

// For says whether a connection that was opened for a name, "" for none, leads to the row.
func (r *IngressRow) For(opened string) bool {
	return r.Own == "" || r.Own == "*" || len(r.By) == 0 /* nothing is led there */ || registry.Covers(r.Own, opened)
}

// Routes are the row's, in order.
func (r *IngressRow) Routes() []Route {
	if len(r.By) == 0 {
		return nil
	}
	if r.Serves.ReadsRequests() {
		return orUnrouted(userRequests(r.HTTP, r.By[0], func(ns string, d route.Destination) WeightedDestination { return r.to(ns, d, Requests) }), len(r.HTTP), Requests, r.By[0])
	}
	if len(r.L4) == 0 {
		return orUnrouted(nil, 0, Connections, r.By[0])
	}
	return userConnections(r.L4, r.By[0], Anyhow, func(ns string, d route.Destination) WeightedDestination { return r.to(ns, d, Connections) })
}

// orUnrouted is for a VirtualService none of whose routes counts here: there is no host of its own that would be reached.
func orUnrouted(routes []Route, n int, kind Kind, by *registry.VirtualService) []Route {
	if n > 0 {
		return routes
	}
	return []Route{{For: kind, Action: Unrouted, By: by.Key, Revision: by.Revision}}
}
