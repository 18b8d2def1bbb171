package ingress

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/httproute"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Name is what a name's part is made from.
type Name struct {
	resolve.IngressName
	IPv6 bool // of ports for UDP, which are listeners of their own
}

// Part is a name's rows.
func (n *Name) Part() *part.Part {
	p := part.New()
	for i := range n.Rows {
		if n.Rows[i].Serves == registry.ServesDatagrams {
			p.Resources = append(p.Resources, n.datagrams(&n.Rows[i])...)
			continue
		}
		p.Resources = append(p.Resources, n.row(&n.Rows[i]))
	}
	return p
}

// Endpoints are those of hosts, not of names.
func (n *Name) Endpoints([]registry.Endpoint) []*resource.Resource { return nil }

func (n *Name) row(r *resolve.IngressRow) *resource.Resource {
	domain := n.Name
	if strings.HasPrefix(domain, ":") {
		domain = wire.IngressAny
	}
	vh := &routev3.VirtualHost{Name: wire.VhostName(tableName(r.Table), domain), Domains: []string{domain}}
	if r.Redirect {
		vh.RequireTls = routev3.VirtualHost_ALL
	}
	if r.Elsewhere {
		vh.Routes = []*routev3.Route{misdirect()}
	}
	routes := r.Routes()
	for i := range routes {
		vh.Routes = append(vh.Routes, rows(r, &routes[i])...)
	}
	if r.Own != "" && len(routes) > 0 {
		vh.Routes = ofOwnConnections(r.Own, append(vh.Routes, farend.NoRoute(r.By[0].Key, r.By[0].Revision, envoy.MatchAnyRequest())))
	}
	if envoy.EnableConfigured(vh) && !envoy.EndsForAll(vh) {
		vh.Routes = append(vh.Routes, farend.NoRoute(r.By[0].Key, r.By[0].Revision, envoy.MatchAnyRequest()))
	}
	return envoy.Seal(resource.VirtualHost, vh.Name, envoy.RefuseOddHosts(vh))
}

// datagrams is the listener of a port for UDP, with the clusters that it leads to. Nothing listens where all that comes would be closed.
func (n *Name) datagrams(r *resolve.IngressRow) []*resource.Resource {
	routes := r.Routes()
	if len(routes) == 0 || routes[0].Action != resolve.Forward {
		return nil
	}
	by := &routes[0]
	d := envoy.UDPForwarding{Port: r.Listen, IPv6: n.IPv6, Log: wire.IngressUDP, Tags: map[string]string{
		wire.TagPolicy: envoy.ObjectRef(by.By), wire.TagRevision: by.Revision, wire.TagRole: wire.RoleMesh, wire.TagAuthority: envoy.SessionCluster,
	}}
	for i := range by.To {
		t, share := &by.To[i], envoy.Share{Cluster: wire.NoCluster, Weight: by.To[i].Weight} // Envoy counts what has no cluster
		if t.Closed == nil {
			share.Cluster = wire.DatagramCluster(r.Listen, t.Port.Number, t.Service.Host)
		}
		d.Shares = append(d.Shares, share)
	}
	var out []*resource.Resource
	for i := range r.Datagrams {
		s := &r.Datagrams[i]
		t := Backend{IngressTarget: s.IngressTarget, Sessions: s.Sessions}
		out = append(out, t.made(wire.DatagramCluster(r.Listen, s.Port.Number, s.Service.Host), s.Port, registry.Subset{}, nil, farend.Mutual{})...)
	}
	l := d.Listener()
	return append(out, envoy.Seal(resource.Listener, l.Name, l))
}

// misdirected is what a client reads that asks over a connection which it opened for another name (RFC 9110 section 15.5.20).
const misdirected = "sallyport: %REQ(:AUTHORITY)% asks for a connection of its own\n"

// ofOwnConnections keeps routes to connections that were opened for a listener's host, and has others refused.
func ofOwnConnections(host string, routes []*routev3.Route) []*routev3.Route {
	if host == "*" {
		return routes
	}
	for _, r := range routes {
		envoy.OpenedFor(host, r)
	}
	return append(routes, misdirect())
}

// others is the row of a table for all names that are not its own: they are for connections of their own.
func others(table string) *resource.Resource {
	vh := &routev3.VirtualHost{Name: wire.VhostName(table, "*"), Domains: []string{"*"}, Routes: []*routev3.Route{misdirect()}}
	return envoy.Seal(resource.VirtualHost, vh.Name, vh)
}

func misdirect() *routev3.Route {
	return envoy.Refuse(wire.MisdirectedRoute, envoy.MatchAnyRequest(), 421, misdirected, nil)
}

// rows renders one of the name's routes.
func rows(row *resolve.IngressRow, r *resolve.Route) []*routev3.Route {
	switch {
	case r.Action == resolve.Unrouted && r.For == resolve.Requests:
		return []*routev3.Route{farend.NoRoute(r.By, r.Revision, envoy.MatchAnyRequest())}
	case r.Action == resolve.Unrouted:
		return []*routev3.Route{farend.NoRouteAnswer(r.By, r.Revision).Row(envoy.MatchQuestion(""))}
	case r.Action == resolve.Close && r.For == resolve.Requests:
		out := farend.ClosedRequests(*r.Closed)
		out.Match = httproute.Match(r.Match)
		if row.Alone {
			httproute.FailAll(out)
		}
		return []*routev3.Route{out}
	case r.Action == resolve.Close:
		out := farend.ClosedAnswer(*r.Closed)
		httproute.Within(out.Match, r.L4)
		return []*routev3.Route{out}
	case r.For == resolve.Requests:
		out := httproute.Render(r.HTTP, r.Match, row.Port, ends(row, r.To), ends(row, r.Mirrors))
		if row.Alone {
			httproute.FailShares(out.GetRoute(), r.To)
		}
		if r.ExternalAuth != nil {
			e := end(r.ExternalAuth)
			httproute.Ask(out, r.HTTP.Asks, e.Cluster)
		}
		return []*routev3.Route{envoy.WithRevision(out, r.Revision)}
	default:
		return httproute.Shares(r, func(t *resolve.WeightedDestination) *routev3.Route { return answer(t, r).Row(envoy.MatchQuestion("")) })
	}
}

// answer is where connections go that take a route's share.
func answer(t *resolve.WeightedDestination, r *resolve.Route) envoy.Answer {
	if t.Closed != nil {
		return farend.ClosedTo(*t.Closed)
	}
	return envoy.Answer{Route: "default", Config: envoy.ObjectRef(r.By), Revision: r.Revision, Cluster: clusterOf(t)}
}

func ends(row *resolve.IngressRow, list []resolve.WeightedDestination) []httproute.End {
	out := make([]httproute.End, len(list))
	for i := range list {
		out[i] = end(&list[i])
		out[i].Secure = row.Serves.EndsTLS()
	}
	return out
}

// end is a destination as requests reach it.
func end(t *resolve.WeightedDestination) httproute.End {
	if t.Closed != nil {
		return httproute.End{Cluster: wire.BlackHoleCluster}
	}
	e := httproute.End{Cluster: clusterOf(t), Traffic: t.Rule.SubsetTraffic(t.Subset, t.Port.Number)}
	if len(farend.ProtocolTranslations(t.Port)) > 0 {
		e.Filters = envoy.GRPCWebConfig()
	}
	return e
}

func clusterOf(t *resolve.WeightedDestination) string {
	if t.Untouched {
		return wire.UntouchedCluster(t.Port.Number, t.Subset, t.Service.Host)
	}
	return wire.SubsetName(t.Port.Number, t.Subset, t.Service.Host)
}
