package translate

import (
	"net/netip"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// lastResort is the row of each of a sidecar's tables for the names that are not in it; asked are the routes by which
// they come again, see askAgain.
func lastResort(rest resolve.Rest, asked ...*routev3.Route) *routev3.VirtualHost {
	vh := &routev3.VirtualHost{Name: blockAllRoute, Domains: []string{"*"}, Routes: asked}
	if rest.AllowAny {
		vh.Name = allowAnyRoute
	}
	for _, r := range rest.Routes() {
		vh.Routes = append(vh.Routes, restRoute(rest, r))
	}
	return vh
}

// restRoute is one of its routes.
func restRoute(rest resolve.Rest, r resolve.RestRoute) *routev3.Route {
	out := restRow(rest, r)
	if !IsAnswer(out) {
		out.Metadata = decidedBy(configOf(rest.By))
		revise(out, restRevision(rest))
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

func restRow(rest resolve.Rest, r resolve.RestRoute) *routev3.Route {
	by, revision := configOf(rest.By), restRevision(rest)
	name := map[resolve.RestDoes]string{resolve.Block: blockAllRoute, resolve.Nowhere: madeUpRoute, resolve.PassOn: allowAnyRoute}[r.Does]
	if r.To == resolve.ToCluster {
		name = clusterRoute
	}
	switch {
	case r.Does == resolve.LookUp:
		return byHost()
	case r.Does == resolve.PassOn && r.For == resolve.Requests:
		return route(name, anyRequest(), to(passthroughCluster))
	case r.Does == resolve.PassOn:
		return answer{route: name, config: by, revision: revision, cluster: passthroughCluster}.row(asksAbout(""))
	case r.For == resolve.Connections:
		return nothing(name, by, revision).row(asksAbout(""))
	case r.Does == resolve.Nowhere:
		return refuse(name, anyRequest(), 502, leadsNowhere, nil)
	default:
		return refuse(name, anyRequest(), 502, notRegistered, nil)
	}
}

// notRegistered is what a refused client reads.
const notRegistered = "sallyport: %REQ(:AUTHORITY)% is not registered, so nothing may leave for it. " +
	"To allow it, apply a ServiceEntry (networking.istio.io/v1, location MESH_EXTERNAL) with this host and port.\n"

// leadsNowhere is what a client reads that connected to a made-up address for something that is not registered.
const leadsNowhere = "sallyport: %REQ(:AUTHORITY)% is not registered for this port, and the address that it was asked at is made up: " +
	"there is nothing behind it. Add the port to the ServiceEntry that registers the host.\n"

// headerAsked is what was asked before, of a question that comes again: "sni:port", ":port" for TLS that shows no name, or
// the connection's address, where a range is asked for.
const headerAsked = "x-sallyport-asked"

// askAgain are the routes by which a question comes again whose name the table does not know: of TLS by the address, and
// of what went to a range of addresses as the range's host, which is asked for last. Each comes once more only: then
// headerAsked is there, and after a range there is nothing.
func askAgain(p listening) (out []*routev3.Route) {
	if len(p.ranges) > 0 {
		byRange := again(decideName(p.number), headerRange)
		byRange.Match.Headers = append(byRange.Match.Headers, &routev3.HeaderMatcher{Name: headerRange, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}})
		out = append(out, byRange)
	}
	if !p.opaque {
		tls := again(decideName(p.number), headerTo)
		tls.Match.Headers = append(tls.Match.Headers, &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: matches(anAddress), InvertMatch: true})
		out = append(out, tls)
	}
	return out
}

// again asks the table once more, for what a header says.
func again(cluster, header string) *routev3.Route {
	action := to(cluster)
	action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteHeader{HostRewriteHeader: header}
	r := route(byAddressRoute, asksAbout(""), action)
	r.Match.Headers = []*routev3.HeaderMatcher{
		{Name: headerAsked, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}, InvertMatch: true},
	}
	r.RequestHeadersToAdd = []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: headerAsked, Value: "%REQ(:AUTHORITY)%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}
	return r
}

// anAddress is the authority of a connection that is named by its address from the beginning.
const anAddress = `([0-9.]+|\[.*\]):[0-9]+`

// matches is a header that the whole of an expression (RE2) matches.
func matches(regex string) *routev3.HeaderMatcher_StringMatch {
	return &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}},
	}}
}

// askedAgain matches questions that come again by their address; those without a TLS name only, where none is set.
func askedAgain(none bool) *routev3.HeaderMatcher {
	m := &routev3.HeaderMatcher{Name: headerAsked, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
	if none {
		m.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: prefix(":")}
	}
	return m
}

// toMadeUp keeps a route to connections whose address is one that was made up. Passing them on would leave their clients
// waiting for an answer that cannot come.
func toMadeUp(r *routev3.Route) *routev3.Route {
	r.Match.FilterState = append(r.Match.FilterState, holds(stateOriginalDst, madeUp))
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
		Key: stateOriginalDst, Matcher: &matcherv3.FilterStateMatcher_AddressMatch{AddressMatch: &matcherv3.AddressMatcher{Ranges: ranges}},
	})
	return r
}

// holds matches a value of the filter state that the whole of an expression (RE2) matches.
func holds(key, regex string) *matcherv3.FilterStateMatcher {
	return &matcherv3.FilterStateMatcher{Key: key, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}},
	}}}
}

// byHost sends requests to where their Host resolves to, at the port that the client chose (ALLOW_ANY_DYNAMIC_DNS). Only
// names that can be looked up: an address in a Host, or "localhost", would get past the checks of DNS answers.
func byHost() *routev3.Route {
	r := route(allowAnyRoute, anyRequest(), to(dynamicCluster))
	r.Match.Headers = []*routev3.HeaderMatcher{
		{Name: ":authority", HeaderMatchSpecifier: matches(`(?i)([a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?\.?(:[0-9]+)?`)},
		{Name: ":authority", HeaderMatchSpecifier: matches(`(?i)(.*\.)?localhost\.?(:[0-9]+)?`), InvertMatch: true},
	}
	return through(withState(r, state(stateDynamicPort, "%DOWNSTREAM_LOCAL_PORT%", stay)), filterNames)
}

// byHostOfRequest is the cluster behind it.
func byHostOfRequest() *clusterv3.Cluster {
	c := byName(dynamicCluster, metadata(accesslog.RolePassthrough, ""))
	c.TypedExtensionProtocolOptions = sameProtocol()
	return c
}
