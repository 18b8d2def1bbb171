package outbound

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// asked keeps a row to connections that asked in a route's way.
func asked(row *routev3.Route, r *resolve.Route, h *Host) *routev3.Route {
	switch r.FoundBy {
	case resolve.ByAddress:
		row.Match.Headers = []*routev3.HeaderMatcher{askedBefore()}
	case resolve.Nameless:
		row.Match.Headers = []*routev3.HeaderMatcher{askedForNone()}
	case resolve.Misnamed:
		row.Match.Headers = []*routev3.HeaderMatcher{unless(askedForNone())}
	case resolve.Otherwise:
		again := unless(askedForNone())
		again.TreatMissingHeaderAsEmpty = true // or never before
		row.Match.Headers = []*routev3.HeaderMatcher{h.foundByAddress(), again}
	case resolve.ByHostName:
		row.Match.Headers = []*routev3.HeaderMatcher{namedBy(h.Service.Host)}
	case resolve.ByName:
		row.Match.Headers = []*routev3.HeaderMatcher{namedBy("*")}
	}
	return row
}

// foundByAddress matches questions that found the host's row by an address. Where it has one name, that is all which do not name it, and Envoy compares a text for a
// tenth of what an expression takes of its memory.
func (h *Host) foundByAddress() *routev3.HeaderMatcher {
	if _, err := netip.ParseAddr(h.Service.Host); err == nil || len(h.Names) > 0 || h.Service.Wildcard() {
		return &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: envoy.HeaderMatches(anAddress)}
	}
	return unless(namedBy(h.Service.Host))
}

// askAgain are the routes by which a question comes again whose name the table does not know: of TLS by the address, and
// of what went to a range of addresses as the range's host, which is asked for last. Each comes once more only: then
// envoy.HeaderAsked is there, and after a range there is nothing.
func askAgain(p Listening) (out []*routev3.Route) {
	if len(p.Ranges) > 0 {
		byRange := askOnceMore(p.decide(), envoy.HeaderRange)
		byRange.Match.Headers = append(byRange.Match.Headers, &routev3.HeaderMatcher{Name: envoy.HeaderRange, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}})
		out = append(out, byRange)
	}
	if !p.Opaque {
		tls := askOnceMore(p.decide(), envoy.HeaderTo)
		tls.Match.Headers = append(tls.Match.Headers, &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: envoy.HeaderMatches(anAddress), InvertMatch: true})
		out = append(out, tls)
	}
	return out
}

// askForHeld asks the table for the answer that all such connections get: it is said once, and rows stay what they are when it changes.
func askForHeld(port uint32) *routev3.Route {
	action := envoy.ToCluster(wire.DecideName(port))
	action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: envoy.Held}
	return envoy.Route("", envoy.MatchQuestion(""), action)
}

// answerHeld is that answer.
func answerHeld(rest resolve.OutboundPolicy) *routev3.Route {
	row := unregisteredRow(rest, rest.ForAddress())
	if rest.ForAddress().Leaves() {
		envoy.MarkOutside(row, wire.Leaves, "", 0)
	}
	row.Match.Headers = []*routev3.HeaderMatcher{
		askedBefore(), {Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: envoy.Exact(envoy.Held)}},
	}
	return row
}

// askOnceMore asks the table once more, for what a header says.
func askOnceMore(cluster, header string) *routev3.Route {
	action := envoy.ToCluster(cluster)
	action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteHeader{HostRewriteHeader: header}
	r := envoy.Route(wire.ByAddressRoute, envoy.MatchQuestion(""), action)
	never := askedBefore()
	never.InvertMatch = true
	r.Match.Headers = []*routev3.HeaderMatcher{never}
	r.RequestHeadersToAdd = []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: envoy.HeaderAsked, Value: "%REQ(:AUTHORITY)%"},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}
	return r
}

// anAddress is the authority of a connection that is named by its address from the beginning.
const anAddress = `([0-9.]+|\[.*\]):[0-9]+`

// askedBefore matches questions that come again.
func askedBefore() *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: envoy.HeaderAsked, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
}

// askedForNone matches questions that come again by their address since there is no TLS name.
func askedForNone() *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: envoy.HeaderAsked, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: envoy.Prefix(":")}}
}

// unless matches headers with other values. One that is not there matches neither way.
func unless(m *routev3.HeaderMatcher) *routev3.HeaderMatcher {
	m.InvertMatch = true
	return m
}
