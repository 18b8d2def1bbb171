package resolve

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// GatewayRoutes is what VirtualServices that are for Gateway objects make of a registration at an egress gateway.
type GatewayRoutes struct {
	Client string // the namespace whose clients follow them; "" for all that have none of their own
	By     []*registry.VirtualService
	HTTP   []route.HTTP
	TLS    []route.L4
	TCP    []route.L4
	Ends   map[registry.End]ReachedDestination
	// Attached are, by port, what routes of the Gateway API lead there; the clients' own VirtualServices of requests come before.
	Attached map[uint32]AttachedRoutes
}

// bound gathers the VirtualServices that lead from the gateway to a registration: those of the host's or the root namespace first,
// then those of clients' own namespaces, in order.
func (e Exit) bound(svc *registry.Service) (out []GatewayRoutes) {
	if !e.verified() || !e.snap.Led(svc.Host) {
		return nil
	}
	gateways := e.snap.GatewaysSelecting(e.gateway)
	listed, routes := e.listed(svc)
	clients := []string{""}
	for _, g := range gateways {
		for _, ns := range e.snap.BoundClients(svc, g.Key) {
			if !slices.Contains(clients, ns) {
				clients = append(clients, ns)
			}
		}
	}
	slices.Sort(clients)
	for _, client := range clients {
		b, ok := e.boundFor(svc, client, gateways)
		if b.Attached = listed; len(listed) > 0 && (ok || client == "") {
			ok, b.By = true, append(b.By, routes...)
			for _, v := range routes {
				for end := range v.EndsBy() {
					b.Ends[end] = e.reach(v, svc, end, &b)
				}
			}
		}
		if ok {
			out = append(out, b)
		}
	}
	return out
}

// boundFor is what clients of a namespace follow.
func (e Exit) boundFor(svc *registry.Service, client string, gateways []*registry.Gateway) (GatewayRoutes, bool) {
	b := GatewayRoutes{Client: client, Ends: map[registry.End]ReachedDestination{}}
	var http [][]route.HTTP
	for _, g := range gateways {
		for _, v := range e.snap.GatewayRoutes(svc, client, g.Key) {
			if client != "" && v.Key.Namespace != client {
				continue // they follow what all do
			}
			read, opaque := e.placeAt(g, v, svc, false), e.placeAt(g, v, svc, true)
			b.By = append(b.By, v)
			http = append(http, v.HTTPAt(read))
			b.TLS = append(b.TLS, anywhere(v.TLSAt(opaque))...)
			b.TCP = append(b.TCP, anywhere(v.TCPAt(opaque))...)
			for end := range v.EndsBy() {
				b.Ends[end] = e.reach(v, svc, end, &b)
			}
		}
	}
	b.HTTP, b.TLS, b.TCP = route.Join(http...), route.JoinL4(b.TLS), route.JoinL4(b.TCP)
	return b, len(b.HTTP)+len(b.TLS)+len(b.TCP) > 0
}

// anywhere leaves matches out that ask where a client connected to: nobody but its own proxy knows that.
func anywhere(list []route.L4) (out []route.L4) {
	for _, l := range list {
		l.Matches = slices.DeleteFunc(slices.Clone(l.Matches), func(m route.L4Match) bool { return len(m.Subnets) > 0 })
		if len(l.Matches) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// placeAt is the gateway as a Gateway object sees it.
func (e Exit) placeAt(g *registry.Gateway, v *registry.VirtualService, svc *registry.Service, opaque bool) route.Scope {
	p := route.Scope{Gateway: g.Key.Namespace + "/" + g.Key.Name, Namespace: e.gateway.Namespace, Ports: g.Ports(v.Key.Namespace, svc.Host, opaque)}
	if k, ok := e.snap.KubeService(e.gateway); ok {
		p.Source = route.Labels(k.Selector)
	}
	return p
}

// reach finds a destination of a VirtualService, or of a route, as the gateway reaches it: what leaves by this gateway, and nothing else.
func (e Exit) reach(v *registry.VirtualService, svc *registry.Service, end registry.End, b *GatewayRoutes) ReachedDestination {
	host := end.Host
	own := e.attached(e.snap.Services(host))
	to := svc
	if host != svc.Host {
		seen := e.snap.Visible(host, end.Namespace, nil)
		i := slices.IndexFunc(own, func(s *registry.Service) bool { return seen != nil && s.Source == seen.Source })
		if i < 0 {
			return ReachedDestination{}
		}
		to = own[i]
	}
	registered := to
	if to.Namespace == v.Key.Namespace && slices.ContainsFunc(v.Leaves, func(l registry.EgressRoutePort) bool { return l.Host == host && l.Exit == e.gateway }) {
		to = to.WithRouted(b.named(host))
	}
	reg := e.plain(to)
	r := ReachedDestination{Service: to, Rule: reg.Rule, Restrictions: reg.Restrictions, Rows: map[uint32]*ExitRow{}}
	r.Wrapped = e.snap.UpstreamRestrictions(to.Read(), reg.Rule, e.connector)
	all := make([]Registration, len(own))
	for i, s := range own {
		if s.Source == registered.Source {
			s = to
		}
		all[i] = e.plain(s)
	}
	for _, port := range to.Ports {
		for _, row := range rowsAt(all, port.Number, true) {
			if row.Service.Namespace == to.Namespace {
				r.Rows[port.Number] = row
			}
		}
	}
	return r
}

// led says whether requests to the row follow the user's routes.
func (r *ExitRow) led() bool {
	http, listed := r.follows()
	return listed || len(http) > 0
}

// requests are the user's routes of requests to a port of the row.
func (r *ExitRow) requests() []Route {
	http, _ := r.follows()
	by := r.by()
	routes := orUnrouted(userRequests(http, by, func(ns string, d route.Destination) WeightedDestination { return r.to(ns, d, Requests) }), len(http), Requests, by)
	for i := range routes {
		routes[i].mirrorOne(r.Service.Host, r.Port.Number)
	}
	if r.GatewayRoutes == nil || r.GatewayRoutes.Client == "" {
		return routes
	}
	for i := range routes {
		if h := routes[i].HTTP; h != nil && h.Renames() { // behind a name that is registered may be many more
			routes[i].Action, routes[i].Closed = Close, &registry.ClosedPort{
				By: h.From, Revision: h.Revision, Why: h.Field + ": the authority that is sent outside is for the namespace that registered the host to change",
				Fix: "remove rewrite.authority and headers that set it",
			}
		}
	}
	return routes
}

// l4 are the user's routes of connections to the row's port.
func (r *ExitRow) l4() []route.L4 {
	switch {
	case r.GatewayRoutes == nil:
		return nil
	case r.Port.Protocol == registry.TLS:
		return append(slices.Clip(r.GatewayRoutes.TLS), r.GatewayRoutes.Attached[r.Port.Number].TLS...)
	default:
		return r.GatewayRoutes.TCP
	}
}

// connections are those of connections; nil where the user has none for them.
func (r *ExitRow) connections(kind Kind) []Route {
	list := r.l4()
	switch {
	case len(list) == 0 && r.Service.ByRoute(r.Port):
		return []Route{{For: kind, Action: Unrouted, By: r.Service.SourceOf(r.Port), Revision: r.Service.RevisionOf(r.Port)}}
	case len(list) == 0:
		return nil
	}
	out := userConnections(list, r.by(), Anyhow, func(ns string, d route.Destination) WeightedDestination { return r.to(ns, d, Connections) })
	for i := range out {
		out[i].For = kind
	}
	return out
}

// to is a destination of what came for the row, which an object of a namespace names.
func (r *ExitRow) to(ns string, d route.Destination, kind Kind) WeightedDestination {
	reach := r.GatewayRoutes.Ends[registry.End{Namespace: ns, Host: d.Host}]
	by := Route{By: r.by().Key, Revision: r.by().Revision}
	t := WeightedDestination{ReachedDestination: &reach, Subset: d.Subset}
	svc := reach.Service
	if svc == nil {
		return t.close(by, d, "does not leave by this egress gateway", "register it outside of the mesh, visibly for the VirtualService's namespace, and let it leave by the same gateway")
	}
	number := d.PortOf(numbersOf(svc), r.Port.Number)
	row := reach.Rows[number]
	switch {
	case row == nil:
		return t.close(by, d, fmt.Sprintf("has no port %d for this", number), "name one that it is registered with")
	case d.Subset != "":
		return t.close(by, d, "leaves by an egress gateway, which goes to all of its endpoints, and not to subset "+d.Subset, "remove the subset")
	case svc.Host != r.Service.Host && svc.Wildcard():
		return t.close(by, d, "is a pattern, which leads to the name that a client says", "name one host")
	case kind == Connections && r.Port.Protocol == registry.TLS && svc.Host != r.Service.Host:
		return t.close(by, d, "is another host than the one that TLS names", "name the host itself")
	case kind == Connections && row.Port.Protocol.IsHTTP():
		return t.close(by, d, fmt.Sprintf("takes requests at port %d", number), "name a port of TLS or TCP")
	}
	t.Port, t.Row = row.Port, row
	far := reach.Restrictions
	if kind == Requests && row.Port.Protocol == registry.TLS {
		t.speakTLS()
		far = reach.Wrapped
	}
	if c, closed := far.Closed[number]; closed {
		t.Closed = &c
	}
	return t
}

// withBound gives a port's choices to the clients that follow VirtualServices of their own.
func withBound(choices []Choice) []Choice {
	var out []Choice
	for _, c := range choices {
		for i := range c.Row.bounds {
			b := &c.Row.bounds[i]
			if b.Client == "" || (c.From != nil && !slices.Contains(c.From, b.Client)) || !c.Row.LetsIn(b.Client) {
				continue
			}
			out = append(out, Choice{Meaning: c.Meaning, From: []string{b.Client}, Row: c.Row.following(b)})
		}
		out = append(out, c)
	}
	return out
}

// following is the row as clients have it that follow other VirtualServices.
func (r *ExitRow) following(b *GatewayRoutes) *ExitRow {
	row := *r
	row.GatewayRoutes = b
	return &row
}

// For is the row as a client of a namespace has it.
func (r *ExitRow) For(ns string) *ExitRow {
	for i := range r.bounds {
		if b := &r.bounds[i]; b.Client != "" && b.Client == ns {
			return r.following(b)
		}
	}
	return r
}

// Secrets are what the ways of its routes need of Secrets.
func (h *ExitHost) Secrets() (out []registry.ServedCredential) {
	for _, r := range h.Own {
		out = append(out, r.Restrictions.Secrets()...)
		for _, b := range r.GatewayRoutes {
			for _, end := range slices.SortedFunc(maps.Keys(b.Ends), registry.End.Compare) {
				out = append(out, b.Ends[end].Wrapped.Secrets()...)
			}
		}
	}
	return out
}
