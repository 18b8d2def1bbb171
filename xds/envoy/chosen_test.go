package envoy

import (
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestByTree: chains that do the same are one, whatever they are for; and a listener that looks at more than where a connection goes stays as it is.
func TestByTree(t *testing.T) {
	at := func(port uint32) *listenerv3.FilterChainMatch {
		return &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)}
	}
	closed, app := Nowhere().Filter(), TCPProxy{Stat: "app", Cluster: "app"}.Filter()
	l := &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{
		Chain("a", at(1), closed), Chain("b", at(2), closed), Chain("c", Within("127.0.0.0", 8), closed), Chain("d", Within("0.0.0.0", 0), app),
	}}
	for what, other := range map[string]*listenerv3.FilterChain{
		"by what is spoken": Chain("e", TLSSpoken(), app), "by both": Chain("e", &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(3), PrefixRanges: Within("::", 0).PrefixRanges}, app),
		"all": Chain("e", nil, app),
	} {
		more := proto.CloneOf(l)
		more.FilterChains = append(more.FilterChains, other)
		as := proto.CloneOf(more)
		if ByTree(more); !proto.Equal(more, as) {
			t.Errorf("with a chain %s it is %v", what, more)
		}
	}
	ByTree(l)
	if len(l.FilterChains) != 2 || l.FilterChains[0].Name != "a" || l.FilterChains[1].Name != "d" || l.FilterChains[0].FilterChainMatch != nil {
		t.Errorf("the chains are %v", l.FilterChains)
	}
	want := InMap(PortInput(), map[string]*OnMatch{"1": ToChain("a"), "2": ToChain("a")}, Further(InOrder(LongestFirst(nil), nil)))
	tree := proto.CloneOf(l.FilterChainMatcher)
	if tree.GetMatcherTree() == nil || !proto.Equal(tree.GetMatcherTree(), want.GetMatcherTree()) || len(tree.OnNoMatch.GetMatcher().GetMatcherList().GetMatchers()) != 2 {
		t.Errorf("the tree is %v", tree)
	}
}
