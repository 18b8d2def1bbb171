package outbound

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
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

// userRequests renders a user's route of requests.
func (h *Host) userRequests(port registry.Port, r *resolve.Route) *routev3.Route {
	out := httproute.Render(r.HTTP, r.Match, port.Number, h.ends(r.To), h.ends(r.Mirrors))
	httproute.Within(out.Match, r.L4)
	if h.joined() {
		httproute.FailShares(out.GetRoute(), r.To)
	}
	switch {
	case r.Action == resolve.Answer:
		envoy.WithRevision(out, r.Revision)
	case len(r.To) == 1 && r.To[0].Service.Exit.IsZero(): // what goes on is told of with the destination's entry
		envoy.WithRevision(out, r.To[0].Service.RevisionOf(r.To[0].Port))
	}
	return out
}

// joined says whether routes of the Gateway API lead to the host.
func (h *Host) joined() bool { return h.Led != nil && h.Led.By.Joined }

func (h *Host) ends(list []resolve.WeightedDestination) []httproute.End {
	out := make([]httproute.End, len(list))
	for i := range list {
		out[i] = h.end(&list[i])
	}
	return out
}

// end is a destination as requests reach it.
func (h *Host) end(t *resolve.WeightedDestination) httproute.End {
	if t.Closed != nil {
		return httproute.End{Cluster: wire.BlackHoleCluster}
	}
	svc := t.Service
	e := httproute.End{Cluster: h.clusterTo(t), Traffic: t.Rule.SubsetTraffic(t.Subset, t.Port.Number)}
	own := &routev3.Route{}
	if svc.Exit.IsZero() {
		farend.ConnectByName(own, svc, t.Port.TargetPort)
	} else {
		e.Authority, e.Traffic = asRegistered(svc, t.Port), registry.TrafficPolicy{}
		if t.RegisteredBySeveral {
			e.Headers = []*corev3.HeaderValueOption{registeredIn(svc)}
		}
	}
	if !svc.External && t.TLS == nil {
		envoy.WithoutHTTP11Only(own)
	}
	if svc.External && svc.Exit.IsZero() {
		envoy.WithFilterConfigs(own, envoy.OutsideFilterConfigs(svc.Host, t.Port.Number, outsideOf(svc)))
	}
	e.Filters = envoy.EnableFilters(envoy.MarkLoggedBy(own, loggedElsewhereBy(svc)), farend.ProtocolTranslations(t.Port)...).TypedPerFilterConfig
	return e
}

// clusterTo is the name of the cluster of a destination: its own, that of its gateway, or, where the proxy speaks TLS at a port that
// apps speak it at, one of the route's.
func (h *Host) clusterTo(t *resolve.WeightedDestination) string {
	switch {
	case !t.Service.Exit.IsZero():
		return part.LegOf(t.Service).Cluster()
	case t.TLS != nil:
		return wire.WrappedCluster(t.Port.Number, h.Service.Host, t.Service.Host, "")
	default:
		return wire.SubsetName(t.Port.Number, t.Subset, t.Service.Host)
	}
}

// asRegistered is the Host by which a gateway knows a host; "" for patterns, of which the client names one.
func asRegistered(svc *registry.Service, port registry.Port) string {
	switch {
	case svc.Wildcard():
		return ""
	case port.Number == 80:
		return svc.Host
	default:
		return wire.HostPort(svc.Host, port.Number)
	}
}

// userConnections renders a user's route of connections: an answer for each destination, which take their shares in turn.
func (h *Host) userConnections(r *resolve.Route) []*routev3.Route {
	return httproute.Shares(r, func(t *resolve.WeightedDestination) *routev3.Route {
		row := asked(h.answerTo(t, r).Row(envoy.MatchQuestion("")), r, h)
		if t.Closed != nil {
			return row
		}
		return leaving(row, t.Service, t.Port.Number)
	})
}

// answerTo is the answer to connections that go to a destination.
func (h *Host) answerTo(t *resolve.WeightedDestination, r *resolve.Route) envoy.Answer {
	if t.Closed != nil {
		return farend.ClosedTo(*t.Closed)
	}
	a := h.tunnelTo(t.Service, t.Port, t.RegisteredBySeveral, t.Subset)
	if r.FoundBy == resolve.ByAddress || r.FoundBy == resolve.Nameless {
		a.By = wire.ByAddress
	}
	return a
}

// wrapped are the clusters in which the proxy speaks TLS for requests, at ports where apps do otherwise.
func (h *Host) wrapped(routes []resolve.Route) (out []*resource.Resource) {
	seen := map[string]bool{}
	for i := range routes {
		for _, t := range slices.Concat(routes[i].To, routes[i].Mirrors) {
			if t.TLS == nil || t.Closed != nil || seen[h.clusterTo(&t)] {
				continue
			}
			seen[h.clusterTo(&t)] = true
			out = append(out, clusterOf(h.clusterTo(&t), t.Service, t.Port, t.TLS, t.Given(), t.ReachedDestination, "", farend.Mutual{}, h)...)
		}
	}
	return out
}

func clusterOf(name string, svc *registry.Service, port registry.Port, tls *registry.TLSSettings, given registry.ServedCredential, r *resolve.ReachedDestination, subset string, mutual farend.Mutual, h *Host) []*resource.Resource {
	if len(r.Restrictions.Refused) > 0 {
		left := *svc
		left.Endpoints = farend.Reachable(svc.Endpoints, r.Restrictions)
		svc = &left
	}
	if s, ok := r.Rule.Subset(subset); ok {
		svc = farend.SubsetOf(svc, s)
	}
	role := wire.RoleExternal
	if !svc.External {
		role = wire.RoleMesh
	}
	way := farend.Options{Mutual: mutual, Near: h.Near, TLS: tls, Given: given, Connect: r.Rule.ConnectTimeoutOf(subset, port.Number, h.Connect), Traffic: r.Rule.SubsetTraffic(subset, port.Number)}
	return farend.Cluster(resource.Cluster, name, svc, port, way, farend.OpaqueRevision(envoy.Metadata(role, envoy.ObjectRef(svc.SourceOf(port))), svc, port))
}

// secrets are what the routes need of Secrets.
func (h *Host) secrets() []registry.ServedCredential {
	out := h.Restrictions.Secrets()
	if h.Led == nil {
		return out
	}
	for _, name := range slices.Sorted(maps.Keys(h.Led.Ends)) {
		for _, g := range h.Led.Ends[name].Wrapped.Secrets() {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// unrouted ends what none of the user's routes means.
func unrouted(r *resolve.Route) *routev3.Route {
	if r.For == resolve.Requests {
		return farend.NoRoute(r.By, r.Revision, envoy.MatchAnyRequest())
	}
	return farend.NoRouteAnswer(r.By, r.Revision).Row(envoy.MatchQuestion(""))
}
