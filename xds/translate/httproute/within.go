package httproute

import (
	"net/netip"
	"regexp"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/wire"
)

// Within keeps a match to the connections that a user's route is for: by the name that they ask for, "NAME:PORT", and by where
// the client connected to. nil keeps nothing out.
func Within(match *routev3.RouteMatch, m *route.L4Match) {
	if m == nil {
		return
	}
	if len(m.SNI) > 0 {
		match.Headers = append(match.Headers, &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
			StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: nameRegex(m.SNI)}}},
		}})
	}
	if len(m.Subnets) > 0 {
		match.FilterState = append(match.FilterState, dialledIn(m.Subnets))
	}
}

// nameRegex is an expression for the names, and what patterns among them cover, with a port.
func nameRegex(names []host.Name) string {
	each := make([]string, len(names))
	for i, n := range names {
		if n.IsWildcard() {
			each[i] = `[^:]+` + regexp.QuoteMeta(n.Suffix())
		} else {
			each[i] = regexp.QuoteMeta(string(n))
		}
	}
	return `(?i)(` + strings.Join(each, "|") + `):[0-9]+`
}

// dialledIn matches connections to addresses in one of these ranges. One that is none contains nothing.
func dialledIn(subnets []netip.Prefix) *matcherv3.FilterStateMatcher {
	var ranges []*xdscorev3.CidrRange
	for _, p := range subnets {
		if p.IsValid() {
			ranges = append(ranges, &xdscorev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))})
		}
	}
	if len(ranges) == 0 { // an address that nobody can connect to
		ranges = []*xdscorev3.CidrRange{{AddressPrefix: "0.0.0.0", PrefixLen: wrapperspb.UInt32(32)}}
	}
	return &matcherv3.FilterStateMatcher{
		Key: wire.StateOriginalDst, Matcher: &matcherv3.FilterStateMatcher_AddressMatch{AddressMatch: &matcherv3.AddressMatcher{Ranges: ranges}},
	}
}

// Shares makes a row of each destination of a user's route of connections. They are asked with the same random number, so each
// takes what is between the shares of those before and the sum with its own; the last takes the rest.
func Shares(r *resolve.Route, row func(*resolve.WeightedDestination) *routev3.Route) (out []*routev3.Route) {
	var sum, upTo uint64
	for _, t := range r.To {
		sum += uint64(t.Weight)
	}
	for i := range r.To {
		upTo += uint64(r.To[i].Weight)
		one := row(&r.To[i])
		Within(one.Match, r.L4)
		if i < len(r.To)-1 {
			one.Match.RuntimeFraction = &corev3.RuntimeFractionalPercent{DefaultValue: &typev3.FractionalPercent{
				Numerator: uint32(upTo * 1_000_000 / sum), Denominator: typev3.FractionalPercent_MILLION,
			}}
		}
		out = append(out, one)
	}
	return out
}
