package egressgateway

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// answers are to questions about connections: of tunnels, before a gateway takes them, and of what is open, by the agent.
func (r exitRow) answers(routes []resolve.Route) (out []*routev3.Route) {
	if !r.at.Verified {
		return r.answersOfForward(routes)
	}
	denied := envoy.ClosedAnswer(wire.NotExportedRoute, envoy.ObjectRef(r.Service.SourceOf(r.Port)), r.Service.RevisionOf(r.Port)).Row(envoy.MatchQuestion(""))
	if r.Audience != nil && len(r.Audience) == 0 {
		return append(out, denied)
	}
	if row := r.upgraded(routes); row != nil {
		out = append(out, row)
	}
	for i := range routes {
		if routes[i].For == resolve.Requests {
			continue
		}
		rows := []*routev3.Route{}
		if routes[i].L4 != nil && routes[i].Action == resolve.Forward {
			rows = r.userAnswers(&routes[i])
		} else {
			rows = append(rows, r.answer(&routes[i]))
		}
		for _, row := range rows {
			if audience := routes[i].Audience; len(audience) > 0 {
				row.Match.FilterState = append(row.Match.FilterState, cameFrom(audience, r.at.Trust))
				out = append(out, row)
			} else if audience == nil {
				out = append(out, row)
			}
		}
	}
	if r.Audience == nil && !slices.ContainsFunc(routes, func(x resolve.Route) bool { return x.For != resolve.Requests && x.Audience != nil }) {
		return out
	}
	return append(out, denied)
}

// answersOfForward are a forward proxy's, whose clients are all the same, and for whom no route leads elsewhere.
func (r exitRow) answersOfForward(routes []resolve.Route) (out []*routev3.Route) {
	if row := r.upgraded(routes); row != nil {
		out = append(out, row)
	}
	for i := range routes {
		if routes[i].For != resolve.Requests {
			out = append(out, r.answer(&routes[i]))
		}
	}
	return out
}

// upgraded answers for requests that were upgraded, where requests go on and not each connection does: which route takes one was settled when it came.
func (r exitRow) upgraded(routes []resolve.Route) *routev3.Route {
	goesOn := func(x resolve.Route) bool { return x.Action == resolve.Forward }
	first := routes[0]
	if all := goesOn(first) && first.For == resolve.Connections && first.L4 == nil && !first.Dialled.IsValid(); all || !slices.ContainsFunc(routes, func(x resolve.Route) bool { return x.For == resolve.Requests && goesOn(x) }) {
		return nil
	}
	row := envoy.Answer{Route: "default", Cluster: r.name(), Revision: r.Service.RevisionOf(r.Port)}.Row(envoy.MatchQuestion(envoy.KindHTTP))
	if r.Audience != nil && r.at.Verified {
		row.Match.FilterState = append(row.Match.FilterState, cameFrom(r.Audience, r.at.Trust))
	}
	return row
}

// answer renders a route of connections.
func (r exitRow) answer(route *resolve.Route) *routev3.Route {
	by, match := envoy.ObjectRef(route.By), envoy.MatchQuestion("")
	if route.For == resolve.TLSConnections {
		match = envoy.MatchQuestion(envoy.KindTLS)
	}
	switch {
	case route.Action == resolve.Close:
		return farend.ClosedAnswer(*route.Closed)
	case route.Action == resolve.WrongProtocol:
		return envoy.ClosedAnswer(wire.WrongProtocolRoute, by, route.Revision).Row(match)
	case route.Action == resolve.Unrouted:
		return farend.NoRouteAnswer(route.By, route.Revision).Row(match)
	case route.Action == resolve.WrongAddress:
		return envoy.ClosedAnswer(wire.BlockAllRoute, by, route.Revision).Row(match)
	case route.Dialled.IsValid():
		row := envoy.Answer{Route: "default", Cluster: r.dialledName(), Revision: route.Revision}.Row(match)
		row.Match.Headers = dialledThere(route.Dialled, r.Port.Number)
		return row
	case r.Service.Wildcard():
		inner := innerListener{tls: r.Port.Protocol == registry.TLS, wildcard: true}
		return farend.WildcardAnswer(inner.name(), r.name(), r.Service, r.Port).Row(match)
	default:
		return envoy.Answer{Route: "default", Cluster: r.name(), Revision: route.Revision}.Row(match)
	}
}

// dialledName is the name of the cluster for it, beside the one that resolves the host for requests.
func (r exitRow) dialledName() string {
	return wire.SubsetName(r.Port.Number, "dialled."+r.Service.Namespace, r.Service.Host)
}

// dialledCluster connects to where the client wanted.
func (r exitRow) dialledCluster() *resource.Resource {
	c := envoy.OriginalDestination(r.dialledName(), wire.RoleExternal)
	if !r.Port.Protocol.IsHTTP() { // of requests it is the port of TLS that the gateway speaks, maybe
		c = farend.AtTarget(c, r.Port)
	}
	c.ConnectTimeout = durationpb.New(r.Rule.ConnectTimeoutFor(r.Port.Number, r.at.Connect))
	c.Metadata = farend.OpaqueRevision(envoy.Metadata(wire.RoleExternal, envoy.ObjectRef(r.Service.SourceOf(r.Port))), r.Service, r.Port)
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	return envoy.Seal(r.at.clusterType(), c.Name, c)
}

// dialledThere matches clients that dialled an address in a range.
func dialledThere(p netip.Prefix, port uint32) []*routev3.HeaderMatcher {
	return []*routev3.HeaderMatcher{{Name: wire.HeaderDialled, HeaderMatchSpecifier: envoy.HeaderMatches(dialledRegex(p, port))}}
}

// dialledRegex is an expression (RE2) for the addresses of a range, with the port; of IPv6 for single ones only.
func dialledRegex(p netip.Prefix, port uint32) string {
	end := ":" + strconv.FormatUint(uint64(port), 10)
	if p.IsSingleIP() {
		return regexp.QuoteMeta(netip.AddrPortFrom(p.Addr(), uint16(port)).String())
	}
	var octets []string
	for i, b := range p.Masked().Addr().AsSlice() {
		switch fixed := p.Bits() - 8*i; {
		case fixed >= 8:
			octets = append(octets, strconv.Itoa(int(b)))
		case fixed <= 0:
			octets = append(octets, "[0-9]+")
		default:
			var values []string
			for v := int(b); v < int(b)+1<<(8-fixed); v++ {
				values = append(values, strconv.Itoa(v))
			}
			octets = append(octets, fmt.Sprintf("(%s)", strings.Join(values, "|")))
		}
	}
	return strings.Join(octets, `\.`) + end
}
