package egressgateway

import (
	"net/netip"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/httproute"
	"github.com/sallyport/sallyport/xds/wire"
)

// userRequest renders a user's route of requests.
func (r exitRow) userRequest(route *resolve.Route) *routev3.Route {
	out := httproute.Render(route.HTTP, route.Match, r.Port.Number, r.ends(route, route.To), r.ends(route, route.Mirrors))
	switch {
	case route.Action == resolve.Answer:
		envoy.WithRevision(out, route.Revision)
	case len(route.To) == 1: // what goes on is told of with the destination's entry
		envoy.WithRevision(out, route.To[0].Service.RevisionOf(route.To[0].Port))
	}
	if r.at.Verified && len(route.To) > 0 {
		letIn(out, restricted(route.Audience, r.at.Trust))
	}
	return out
}

func (r exitRow) ends(route *resolve.Route, list []resolve.WeightedDestination) []httproute.End {
	out := make([]httproute.End, len(list))
	for i := range list {
		out[i] = r.end(&list[i], route.Besides(&list[i], r.Service.Host, r.Port.Number))
	}
	return out
}

// end is a destination as requests reach it. The server knows itself without the port that the table knows it by.
// Policies are asked about besides, too.
func (r exitRow) end(t, besides *resolve.WeightedDestination) httproute.End {
	if t.Closed != nil {
		return httproute.End{Cluster: wire.BlackHoleCluster}
	}
	e := httproute.End{Cluster: r.clusterTo(t), Traffic: t.Rule.TrafficFor(t.Port.Number)}
	if (r.Port.Number == 80 || r.Port.Number == 443) && !r.Service.Wildcard() {
		e.Otherwise = r.Service.Host
	}
	own := farend.ConnectByName(&routev3.Route{}, t.Service, t.Port.TargetPort)
	if besides != nil {
		envoy.WithFilterConfigs(own, envoy.RoutedFilterConfigs(besides.Service.Host, besides.Port.Number, r.letOut(besides)))
	}
	e.Filters = envoy.EnableFilters(own, farend.ProtocolTranslations(t.Port)...).TypedPerFilterConfig
	return e
}

// letOut is what policies are told of a destination that a route of the row leads to; "" where neither is one that nobody registered.
func (r exitRow) letOut(to *resolve.WeightedDestination) string {
	switch {
	case to.Service.Unregistered:
		return wire.LetOutByPolicy
	case r.Service.Unregistered:
		return wire.Leaves
	default:
		return ""
	}
}

// clusterTo is the name of a destination's cluster: its own, or, where the gateway speaks TLS at a port that apps speak it at, or where only
// the route leads to the port, one of the route's.
func (r exitRow) clusterTo(t *resolve.WeightedDestination) string {
	if t.Port.Routed {
		return wire.RoutedCluster(t.Port.Number, r.Service.Host, t.Service.Host, t.Service.Namespace, t.TLS != nil)
	}
	if t.TLS == nil {
		return exitRow{t.Row, r.at}.name()
	}
	ns := ""
	if !t.Row.First {
		ns = t.Service.Namespace
	}
	return wire.WrappedCluster(t.Port.Number, r.Service.Host, t.Service.Host, ns)
}

// wrapped are those clusters.
func (r exitRow) wrapped() (out []*resource.Resource) {
	if r.GatewayRoutes == nil {
		return nil // the row's own way has the row's cluster
	}
	for _, route := range r.Routes() {
		for _, list := range [...][]resolve.WeightedDestination{route.To, route.Mirrors} {
			for i := range list {
				t := &list[i]
				if t.TLS == nil && !t.Port.Routed || t.Closed != nil {
					continue
				}
				tls, far := t.TLS, t.Wrapped
				if tls == nil {
					tls, far = t.Row.TLS, t.Restrictions
				}
				md := envoy.Metadata(wire.RoleExternal, envoy.ObjectRef(t.Service.SourceOf(t.Port)))
				to := farend.Options{TLS: tls, Given: t.Given(), Connect: t.Rule.ConnectTimeoutFor(t.Port.Number, r.at.Connect), Traffic: t.Rule.TrafficFor(t.Port.Number), Near: r.at.Near}
				out = append(out, farend.Cluster(r.at.clusterType(), r.clusterTo(t), asOutside(t.Service, far), t.Port, to, md)...)
			}
		}
	}
	return out
}

// userAnswers are the answers to connections that a user's route is for: one for each destination, which take their shares in
// turn. Who may not use one of them has none.
func (r exitRow) userAnswers(route *resolve.Route) []*routev3.Route {
	return httproute.Shares(route, func(t *resolve.WeightedDestination) *routev3.Route {
		match := envoy.MatchQuestion("")
		if route.For == resolve.TLSConnections {
			match = envoy.MatchQuestion(envoy.KindTLS)
		}
		switch {
		case t.Closed != nil:
			return farend.ClosedTo(*t.Closed).Row(match)
		case t.Service.Wildcard():
			inner := innerListener{tls: t.Port.Protocol == registry.TLS, wildcard: true}
			return farend.WildcardAnswer(inner.name(), r.clusterTo(t), t.Service, t.Port).Row(match)
		default:
			row := envoy.Answer{Route: "default", Cluster: r.clusterTo(t), Revision: t.Service.RevisionOf(t.Port)}.Row(match)
			if besides := route.Besides(t, r.Service.Host, r.Port.Number); besides != nil {
				envoy.RoutedAnswer(row, besides.Service.Host, besides.Port.Number, r.letOut(besides))
			}
			return row
		}
	})
}

// userTunnels are the same for CONNECT.
func (r exitRow) userTunnels(route *resolve.Route) []*routev3.Route {
	out := httproute.Shares(route, func(t *resolve.WeightedDestination) *routev3.Route {
		if t.Closed != nil {
			return farend.ClosedTunnels(*t.Closed)
		}
		row := envoy.WithRevision(tunnelRoute(t.Service, t.Port, r.clusterTo(t)), t.Service.RevisionOf(t.Port))
		if besides := route.Besides(t, r.Service.Host, r.Port.Number); besides != nil {
			envoy.WithFilterConfigs(row, envoy.RoutedFilterConfigs(besides.Service.Host, besides.Port.Number, r.letOut(besides)))
		}
		return row
	})
	for _, row := range out {
		letIn(row, restricted(route.Audience, r.at.Trust))
	}
	return out
}

// asOutside is a service as an exit reaches it: by DNS and by nothing else. An exit has no destination that its client
// chose, so resolution NONE means the name. Names end with the root's dot: without it Envoy's resolver answers from
// /etc/hosts, and "localhost" and all below it with the proxy's own loopback, past the checks of DNS answers.
func asOutside(svc *registry.Service, far registry.UpstreamRestrictions) *registry.Service {
	out := *svc
	if out.Resolution == registry.None {
		out.Resolution = registry.DNS
	}
	out.Endpoints = farend.Reachable(svc.Endpoints, far)
	if out.Resolution == registry.DNS && len(out.Endpoints) == 0 && !svc.Wildcard() {
		out.Endpoints = []registry.Endpoint{{Address: svc.Host}}
	}
	for i, e := range out.Endpoints {
		if _, err := netip.ParseAddr(e.Address); err != nil && out.Resolution == registry.DNS {
			out.Endpoints[i].Address = strings.TrimSuffix(e.Address, ".") + "."
		}
	}
	return &out
}
