package outbound

import (
	"net/netip"
	"slices"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// lastResort is the row of each of a sidecar's tables for the names that are not in it; asked are the routes by which
// they come again, see askAgain.
func lastResort(rest resolve.OutboundPolicy, asked ...*routev3.Route) *routev3.VirtualHost {
	vh := &routev3.VirtualHost{Name: wire.BlockAllRoute, Domains: []string{"*"}, Routes: asked}
	if rest.AllowAny {
		vh.Name = wire.AllowAnyRoute
	}
	for _, r := range rest.Routes() {
		if r.Action == resolve.AskPod {
			vh.Routes = append(vh.Routes, toPods(rest, r)...)
			continue
		}
		vh.Routes = append(vh.Routes, unregisteredRoute(rest, r))
	}
	if slices.ContainsFunc(rest.Routes(), resolve.UnregisteredRoute.Leaves) {
		return envoy.RefuseOddHosts(vh)
	}
	return vh
}

// unregisteredRoute is one of its routes.
func unregisteredRoute(rest resolve.OutboundPolicy, r resolve.UnregisteredRoute) *routev3.Route {
	out := unregisteredRow(rest, r)
	if !envoy.IsAnswer(out) {
		out.Metadata = envoy.DecidedByMetadata(envoy.ObjectRef(rest.By))
		envoy.WithRevision(out, unregisteredRevision(rest))
	}
	if r.Leaves() {
		envoy.MarkOutside(out, wire.Leaves, "", 0)
	}
	switch r.To {
	case resolve.ToMadeUp:
		return toMadeUp(out)
	case resolve.ToCluster:
		return inCluster(rest.Networks, out)
	default:
		return out
	}
}

func unregisteredRow(rest resolve.OutboundPolicy, r resolve.UnregisteredRoute) *routev3.Route {
	by, revision := envoy.ObjectRef(rest.By), unregisteredRevision(rest)
	name := map[resolve.UnregisteredAction]string{resolve.Block: wire.BlockAllRoute, resolve.Nowhere: wire.MadeUpRoute, resolve.PassOn: wire.AllowAnyRoute}[r.Action]
	if r.To == resolve.ToCluster {
		name = wire.ClusterRoute
	}
	switch {
	case r.Action == resolve.LookUp:
		return byHost()
	case r.Action == resolve.PassOn && r.For == resolve.Requests:
		return envoy.Route(name, envoy.MatchAnyRequest(), envoy.ToCluster(wire.PassthroughCluster))
	case r.Action == resolve.PassOn:
		return envoy.Answer{Route: name, Config: by, Revision: revision, Cluster: wire.PassthroughCluster}.Row(envoy.MatchQuestion(""))
	case r.For == resolve.Connections:
		return envoy.ClosedAnswer(name, by, revision).Row(envoy.MatchQuestion(""))
	case r.Action == resolve.Nowhere:
		return envoy.Refuse(name, envoy.MatchAnyRequest(), 502, leadsNowhere, nil)
	default:
		return envoy.Refuse(name, envoy.MatchAnyRequest(), 502, farend.NotRegistered, nil)
	}
}

// leadsNowhere is what a client reads that connected to a made-up address for something that is not registered.
const leadsNowhere = "sallyport: %REQ(:AUTHORITY)% is not registered for this port, and the address that it was asked at is made up: " +
	"there is nothing behind it. Add the port to the ServiceEntry that registers the host.\n"

// toMadeUp keeps a route to connections whose address is one that was made up. Passing them on would leave their clients
// waiting for an answer that cannot come.
func toMadeUp(r *routev3.Route) *routev3.Route {
	r.Match.FilterState = append(r.Match.FilterState, envoy.MatchState(wire.StateOriginalDst, madeUp))
	return r
}

// madeUp is the text of an address in host.MadeUp4 or host.MadeUp6. (Envoy has a matcher of ranges; it is work in progress
// and outside of Envoy's threat model.)
const madeUp = `(240\.240\.|\[2001:2:(0:|:)).*`

// inCluster keeps a route to connections to the cluster's own networks. The matcher of ranges is the one word that Envoy has
// for it in a route, and what it reads is an address that the kernel gave.
func inCluster(networks []netip.Prefix, r *routev3.Route) *routev3.Route {
	ranges := make([]*xdscorev3.CidrRange, len(networks))
	for i, p := range networks {
		ranges[i] = &xdscorev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}
	}
	r.Match.FilterState = append(r.Match.FilterState, &matcherv3.FilterStateMatcher{
		Key: wire.StateOriginalDst, Matcher: &matcherv3.FilterStateMatcher_AddressMatch{AddressMatch: &matcherv3.AddressMatcher{Ranges: ranges}},
	})
	return r
}

// byHost sends requests to where their Host resolves to, at the port that the client chose (ALLOW_ANY_DYNAMIC_DNS). Only
// names that can be looked up: an address in a Host, or "localhost", would get past the checks of DNS answers.
func byHost() *routev3.Route {
	r := envoy.Route(wire.AllowAnyRoute, envoy.MatchAnyRequest(), envoy.ToCluster(wire.DynamicCluster))
	r.Match.Headers = []*routev3.HeaderMatcher{
		{Name: ":authority", HeaderMatchSpecifier: envoy.HeaderMatches(`(?i)([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?\.?(:[0-9]+)?`)},
		{Name: ":authority", HeaderMatchSpecifier: envoy.HeaderMatches(`(?i)(.*\.)?localhost\.?(:[0-9]+)?`), InvertMatch: true},
	}
	return envoy.EnableFilters(envoy.WithState(r, envoy.State(wire.StateDynamicPort, "%DOWNSTREAM_LOCAL_PORT%", envoy.NotShared)), envoy.FilterDynamicForwardProxy)
}

// byHostOfRequest is the cluster behind it.
func byHostOfRequest() *clusterv3.Cluster {
	c := envoy.DynamicForwardProxyCluster(wire.DynamicCluster, envoy.Metadata(wire.RolePassthrough, ""))
	c.TypedExtensionProtocolOptions = envoy.DownstreamProtocol()
	return c
}

// unregisteredRevision is that of what decides about what nobody registered. It covers that alone, and not the whole object: whatever
// else is edited in a Sidecar or in the mesh's settings, listeners and rows stay as they are.
func unregisteredRevision(r resolve.OutboundPolicy) string {
	return envoy.UnregisteredRevision(envoy.ObjectRef(r.By), r.AllowAny)
}
