package tunnels

import (
	"testing"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestUnseenOfNamespaces: where one resource has the levels of several namespaces, what one of them looks at says nothing of the others.
func TestUnseenOfNamespaces(t *testing.T) {
	packed := func(m proto.Message) *anypb.Any {
		t.Helper()
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	looks := func(header, says string) *cncfmatcherv3.Matcher_OnMatch {
		return &cncfmatcherv3.Matcher_OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Matcher{Matcher: &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherTree_{
			MatcherTree: &cncfmatcherv3.Matcher_MatcherTree{
				Input: &cncfcorev3.TypedExtensionConfig{Name: says, TypedConfig: packed(&typematcherv3.HttpRequestHeaderMatchInput{HeaderName: header})},
			},
		}}}}
	}
	index := &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherTree_{MatcherTree: &cncfmatcherv3.Matcher_MatcherTree{TreeType: &cncfmatcherv3.Matcher_MatcherTree_PrefixMatchMap{
		PrefixMatchMap: &cncfmatcherv3.Matcher_MatcherTree_MatchMap{Map: map[string]*cncfmatcherv3.Matcher_OnMatch{
			"spiffe://cluster.local/ns/plain/sa/":   looks(":path", "spiffe://cluster.local/ns/headers/sa/"),
			"spiffe://cluster.local/ns/headers/sa/": looks("x-stage", "spiffe://cluster.local/ns/plain/sa/"), // whatever it says
		}},
	}}}}
	outside := &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherList_{MatcherList: &cncfmatcherv3.Matcher_MatcherList{Matchers: []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{{
		OnMatch: &cncfmatcherv3.Matcher_OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Matcher{Matcher: index}},
	}}}}}
	for where, m := range map[string]*cncfmatcherv3.Matcher{"a waypoint's": index, "a node's": outside} {
		body, err := proto.Marshal(&corev3.TypedExtensionConfig{Name: ownPolicies, TypedConfig: packed(&matchingv3.ExtensionWithMatcher{XdsMatcher: m})})
		if err != nil {
			t.Fatal(err)
		}
		u := unseen{}
		c := Change{Type: extensionType, Names: []string{"sallyport.leaving.tells", ownPolicies}, Bodies: [][]byte{body, body}}.OfLeaving()
		u.set(c)
		for client, want := range map[string]bool{"plain": false, "headers": true, "other": false, "rs": false} {
			if got := u.mean(record.Object{Kind: wire.EgressPolicy, Namespace: client, Name: "list"}, client); got != want {
				t.Errorf("%s: a denial to %s says nothing: %t, want %t", where, client, got, want)
			}
		}
		if u.mean(record.Object{Kind: wire.EgressPolicy, Namespace: "istio-system", Name: "mesh"}, "headers") {
			t.Errorf("%s: the root namespace's denial says nothing", where)
		}
		u.set(Change{Type: extensionType, Names: []string{rootPolicies}, Bodies: [][]byte{body}})
		if !u.mean(record.Object{Kind: wire.EgressPolicy, Namespace: "istio-system", Name: "mesh"}, "headers") {
			t.Errorf("%s: the root namespace's denial says something", where)
		}
		if u.set(Change{Type: extensionType, Names: []string{rootPolicies, ownPolicies}}); len(u) > 0 {
			t.Errorf("%s: what is gone is remembered: %v", where, u)
		}
	}
	header, err := proto.Marshal(&corev3.TypedExtensionConfig{TypedConfig: packed(&matchingv3.ExtensionWithMatcher{XdsMatcher: looks("x-stage", "").GetMatcher()})})
	if err != nil {
		t.Fatal(err)
	}
	for name, egress := range map[string]bool{"root/*": true, "root/shop": true, "root=mesh,more": true, rootPolicies: true, rootPolicies + ".led": false, "root/cart": false, "own/cart": false, "sallyport.authorization": false} {
		u := unseen{}
		u.set(Change{Type: extensionType, Names: []string{name}, Bodies: [][]byte{header}})
		if got := u.mean(record.Object{Kind: wire.EgressPolicy, Namespace: "istio-system", Name: "mesh"}, "shop"); got != egress {
			t.Errorf("at a gateway, of %s: the root namespace's denial says nothing: %t", name, got)
		}
		if got := u.mean(record.Object{Kind: wire.AuthorizationPolicy, Namespace: "istio-system", Name: "mesh"}, "shop"); got != (name == "sallyport.authorization") {
			t.Errorf("at a gateway, of %s: an AuthorizationPolicy's denial says nothing: %t", name, got)
		}
	}
	for _, odd := range []string{"", "x", "\x12\xff\xff", string([]byte{0x12, 2, 0x12, 9})} { // of no message
		if levelsOf([]byte(odd)) != nil {
			t.Errorf("%q has levels", odd)
		}
	}
}
