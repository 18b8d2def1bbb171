package resolve

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// NamedDestination is a destination as an object's route names it.
type NamedDestination struct {
	Field  string // the route: "http[0]"
	Mirror bool
	To     route.Destination
}

// DestinationWays says of the destinations that the routes of one object name what becomes of what they are led, wherever that was asked:
// nil of those to which something is sent, otherwise why nothing is. Those of which nothing was asked are not in it.
type DestinationWays struct {
	by   config.Key
	Why  map[NamedDestination]*registry.ClosedPort
	asks int // how many are left
}

// mostWays bounds what is asked about one object: it may name thousands of destinations for each of as many hosts.
const mostWays = 20_000

// WaysOf asks nothing yet.
func WaysOf(by config.Key) *DestinationWays {
	return &DestinationWays{by: by, Why: map[NamedDestination]*registry.ClosedPort{}, asks: mostWays}
}

// Closed is why nothing is sent to a destination of a rule of the Gateway API, "rules[0]", by any of its matches, each of which is a route; nil where something is, or nothing was asked.
func (w *DestinationWays) Closed(rule string, mirror bool, to route.Destination) (closed *registry.ClosedPort) {
	for n, why := range w.Why {
		switch {
		case n.Mirror != mirror || n.To != to || n.Field != rule && !strings.HasPrefix(n.Field, rule+"."):
		case why == nil:
			return nil
		default:
			closed = why
		}
	}
	return closed
}

// Whole says whether all was asked that there was to ask.
func (w *DestinationWays) Whole() bool { return w.asks >= 0 }

// note adds what happens to one destination at one place. What other objects close, as rules of TLS do, is theirs to say.
func (w *DestinationWays) note(n NamedDestination, t WeightedDestination) {
	why, asked := w.Why[n]
	switch {
	case t.Closed == nil || !leads(t.Closed.By.Kind):
		w.Why[n] = nil
	case !asked || why != nil:
		w.Why[n] = t.Closed
	}
}

// leads says whether objects of a kind say where something is led.
func leads(kind config.Kind) bool {
	switch kind {
	case config.KindVirtualService, config.KindHTTPRoute, config.KindGRPCRoute, config.KindTLSRoute, config.KindTCPRoute, config.KindUDPRoute:
		return true
	}
	return false
}

// http asks about routes of requests.
func (w *DestinationWays) http(list []route.HTTP, to func(route.Destination) WeightedDestination) {
	for i := range list {
		h := &list[i]
		if h.From != w.by || h.Closed != nil || h.Held() {
			continue
		}
		for _, d := range h.Destinations {
			w.ask(NamedDestination{Field: h.Field, To: d.Destination}, to)
		}
		for _, m := range h.Mirrors {
			w.ask(NamedDestination{Field: h.Field, Mirror: true, To: m.Destination}, to)
		}
	}
}

// l4 asks about routes of connections.
func (w *DestinationWays) l4(list []route.L4, to func(route.Destination) WeightedDestination) {
	for _, l := range list {
		if l.From != w.by || l.Closed != nil {
			continue
		}
		for _, d := range l.Destinations {
			w.ask(NamedDestination{Field: l.Field, To: d.Destination}, to)
		}
	}
}

func (w *DestinationWays) ask(n NamedDestination, to func(route.Destination) WeightedDestination) {
	if w.asks--; w.asks >= 0 {
		w.note(n, to(n.To))
	}
}

// Ask asks about the routes that lead the workload to a host.
func (a Sidecar) Ask(w *DestinationWays, host string) {
	h, ok := a.Host(host)
	if !ok || h.Led == nil || h.Waypoint != nil {
		return
	}
	for _, p := range h.Service.Ports {
		if _, closed := h.Restrictions.Closed[p.Number]; closed || !h.Takes(p) {
			continue
		}
		if p.Protocol.IsHTTP() {
			list := h.Led.By.HTTPAt(route.At(p.Number, h.Led.Namespace, h.Led.Selected))
			w.http(list, func(d route.Destination) WeightedDestination { return h.to(d, p, Requests) })
		} else {
			w.l4(h.l4(p), func(d route.Destination) WeightedDestination { return h.to(d, p, Connections) })
		}
	}
}

// Ask asks about the routes by which the exit leads to a host.
func (e Exit) Ask(w *DestinationWays, host string) {
	h, ok := e.Host(host)
	if !ok {
		return
	}
	for _, p := range h.Ports() {
		for _, c := range p.Choices {
			w.row(c.Row)
		}
	}
}

func (w *DestinationWays) row(r *ExitRow) {
	_, closed := r.Closed()
	switch tcp := r.Port.Protocol == registry.TCP; {
	case closed || r.GatewayRoutes == nil || r.Dials() || tcp && r.Service.Wildcard():
	case r.Port.Protocol.IsHTTP():
		list, _ := r.follows()
		w.http(list, func(d route.Destination) WeightedDestination { return r.to(w.by.Namespace, d, Requests) })
	default:
		w.l4(r.l4(), func(d route.Destination) WeightedDestination { return r.to(w.by.Namespace, d, Connections) })
	}
}

// Ask asks about the routes of a namespace's objects that count for a host, or a pattern, at the servers of a Gateway object.
func (a Ingress) Ask(w *DestinationWays, gateway config.Key, ns, host string) {
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Gateway.Key != gateway || o.Serves == registry.NotServed {
			continue
		}
		for _, name := range namesAt(o, ns, host) {
			if row := a.rowOf(tableOf(o), name); row != nil {
				w.ingress(row)
			}
		}
	}
}

// namesAt are the names by which a server is asked for a host, or a pattern, of a namespace's objects.
func namesAt(o *registry.IngressServer, ns, host string) []string {
	names := o.Lets(ns, host)
	if o.Serves.Nameless() && len(names) > 0 {
		return []string{registry.CatchAllName(o.Port)}
	}
	for i := range names {
		names[i] = strings.ToLower(names[i])
	}
	return names
}

// LeftOut says whether routes of a VirtualService for a host, or a pattern, count at servers of a Gateway object, and whether other namespaces have the name at all of these.
func (a Ingress) LeftOut(gateway, by config.Key, host string) bool {
	counts := false
	for _, o := range a.snap.Opened(a.Ingress).Servers {
		if o.Gateway.Key != gateway || o.Serves == registry.NotServed {
			continue
		}
		at := gateway.Namespace + "/" + gateway.Name
		for _, name := range namesAt(o, by.Namespace, host) {
			told := a.snap.AnyAsking(name, func(v *registry.VirtualService) bool {
				return v.Key == by && v.ExportTo.Includes(a.Namespace) && a.snap.AtGateway(v, at) != nil && v.CountsAt(o.Serves, a.place(o))
			})
			if !told {
				continue
			}
			counts = true
			if row := a.rowOf(tableOf(o), name); row != nil && slices.ContainsFunc(row.By, func(v *registry.VirtualService) bool { return v.Key.Namespace == by.Namespace }) {
				return false
			}
		}
	}
	return counts
}

func (w *DestinationWays) ingress(r *IngressRow) {
	if len(r.By) == 0 {
		return
	}
	w.http(r.HTTP, func(d route.Destination) WeightedDestination { return r.to(w.by.Namespace, d, Requests) })
	w.l4(r.L4, func(d route.Destination) WeightedDestination { return r.to(w.by.Namespace, d, Connections) })
}
