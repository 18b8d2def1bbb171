package envoy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What follows chooses a listener's filter chains by a tree: several ports may lead to one chain, and connections stay when another port comes to lead there.

// ToChain leads to the chain of a name.
func ToChain(name string) *OnMatch { return Does("chain", wrapperspb.String(name)) }

// Spoken is which chain takes a connection, by what it begins with.
type Spoken struct{ TLS, HTTP, Rest *OnMatch }

// Chosen looks at what was found out.
func (s Spoken) Chosen() *cncfmatcherv3.Matcher {
	protocol := extension("protocol", &inputsv3.ApplicationProtocolInput{})
	http := InOrder([]*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{
		If(Any(Is(protocol, "'http/1.0'"), Is(protocol, "'http/1.1'"), Is(protocol, "'h2c'")), s.HTTP),
	}, s.Rest)
	return InMap(extension("transport", &inputsv3.TransportProtocolInput{}), map[string]*OnMatch{"tls": s.TLS}, Further(http))
}

// goesTo asks whether a connection goes to a range of addresses.
func goesTo(to netip.Prefix) *Predicate {
	return InRanges(extension("to", &inputsv3.DestinationIPInput{}), []netip.Prefix{to})
}

// ByTree has a tree choose among chains that are for ports and ranges of addresses alone, so that those which do the same are one: Envoy's own matching would have a chain for each. It leaves
// others as they are.
func ByTree(l *listenerv3.Listener) {
	if slices.ContainsFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool { return !byPlaceAlone(c) }) {
		return
	}
	var chains []*listenerv3.FilterChain
	ports, ranges := map[string]*OnMatch{}, map[netip.Prefix]*OnMatch{}
	for _, c := range l.FilterChains {
		match := c.FilterChainMatch
		c.FilterChainMatch = nil
		at := slices.IndexFunc(chains, func(o *listenerv3.FilterChain) bool { return slices.EqualFunc(o.Filters, c.Filters, equalFilters) })
		if at < 0 {
			at, chains = len(chains), append(chains, c)
		}
		to := ToChain(chains[at].Name)
		if port := match.DestinationPort; port != nil {
			ports[strconv.FormatUint(uint64(port.Value), 10)] = to
		}
		for _, r := range match.PrefixRanges {
			ranges[netip.PrefixFrom(netip.MustParseAddr(r.AddressPrefix), int(r.PrefixLen.GetValue()))] = to
		}
	}
	l.FilterChains, l.FilterChainMatcher = chains, InMap(PortInput(), ports, Further(InOrder(LongestFirst(ranges), nil)))
}

func equalFilters(a, b *listenerv3.Filter) bool { return proto.Equal(a, b) }

// byPlaceAlone says whether a chain is for a port, or for ranges of addresses, and for nothing else.
func byPlaceAlone(c *listenerv3.FilterChain) bool {
	m := c.GetFilterChainMatch()
	if c.TransportSocket != nil || (m.GetDestinationPort() != nil) == (len(m.GetPrefixRanges()) > 0) {
		return false
	}
	rest := proto.CloneOf(m)
	rest.DestinationPort, rest.PrefixRanges = nil, nil
	return proto.Equal(rest, &listenerv3.FilterChainMatch{})
}

// LongestFirst are the lines of a tree that leads by address: a longer prefix comes before a shorter one.
func LongestFirst(ranges map[netip.Prefix]*OnMatch) (lines []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher) {
	for _, prefix := range slices.SortedFunc(maps.Keys(ranges), func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(b.Bits(), a.Bits()), a.Addr().Compare(b.Addr()))
	}) {
		lines = append(lines, If(goesTo(prefix), ranges[prefix]))
	}
	return lines
}
