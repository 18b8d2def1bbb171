package envoy

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What follows chooses a listener's filter chains by a tree: several ports may lead to one chain, and connections stay when another port comes to lead there.

// OnMatchChain leads to the chain of a name.
func OnMatchChain(name string) *OnMatch { return OnMatchAction("chain", wrapperspb.String(name)) }

// ProtocolChains is which chain takes a connection, by what it begins with.
type ProtocolChains struct{ TLS, HTTP, Rest *OnMatch }

// Chosen looks at what was found out.
func (s ProtocolChains) Chosen() *cncfmatcherv3.Matcher {
	protocol := extension("protocol", &inputsv3.ApplicationProtocolInput{})
	http := MatchList([]*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{
		MatchCase(AnyOf(InputIs(protocol, "'http/1.0'"), InputIs(protocol, "'http/1.1'"), InputIs(protocol, "'h2c'")), s.HTTP),
	}, s.Rest)
	return ExactMatchMap(extension("transport", &inputsv3.TransportProtocolInput{}), map[string]*OnMatch{"tls": s.TLS}, OnMatchMatcher(http))
}

// goesTo asks whether a connection goes to a range of addresses.
func goesTo(to netip.Prefix) *Predicate {
	return InputInRanges(DestinationAddressInput(), []netip.Prefix{to})
}

// LongestFirst are the lines of a tree that leads by address: a longer prefix comes before a shorter one.
func LongestFirst(ranges map[netip.Prefix]*OnMatch) (lines []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher) {
	for _, prefix := range slices.SortedFunc(maps.Keys(ranges), func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(b.Bits(), a.Bits()), a.Addr().Compare(b.Addr()))
	}) {
		lines = append(lines, MatchCase(goesTo(prefix), ranges[prefix]))
	}
	return lines
}
