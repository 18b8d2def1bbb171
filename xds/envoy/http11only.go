package envoy

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	skipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/matcher/action/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// HTTP11 is HTTP/1.1 in ALPN (RFC 7301).
const HTTP11 = "http/1.1"

// filterHTTP11Only is the HTTP filter by which an upgrade gets a connection to itself.
const filterHTTP11Only = "sallyport.alone"

// http11Only makes a request go on by HTTP/1.1, where the cluster lets the server choose (MeshProtocol): by offering nothing
// else. Bytes that are not messages, of an upgrade, so have a connection of their own, whose end is theirs and
// which waits for a slow reader. A stream of HTTP/2 that one side has ended is reset, with what still waits for the
// window: docs/adr/0011-bytes-arrive-whole.md.
func http11Only() *httpstatev3.Config {
	return &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{State(wire.StateProtocols, HTTP11, NotShared)}}
}

// WithoutHTTP11Only leaves that out for a route to where the TLS of the cluster's own says what is spoken.
func WithoutHTTP11Only(r *routev3.Route) *routev3.Route {
	return WithFilterConfig(r, filterHTTP11Only, turnedOff())
}

// upgradesOverHTTP11 is alone for requests that ask for an upgrade, such as WebSocket's.
func upgradesOverHTTP11() *hcmv3.HttpFilter {
	upgrade := &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input: &xdscorev3.TypedExtensionConfig{Name: "upgrade", TypedConfig: ToAny(&envoymatcherv3.HttpRequestHeaderMatchInput{HeaderName: "upgrade"})},
		Matcher: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{
				EngineType: &matcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherv3.RegexMatcher_GoogleRE2{}}, Regex: ".+",
			}},
		}},
	}
	none := &matcherv3.Matcher_MatcherList_Predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_NotMatcher{
		NotMatcher: &matcherv3.Matcher_MatcherList_Predicate{MatchType: &matcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: upgrade}},
	}}
	return httpFilter(filterHTTP11Only, &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: filterState, TypedConfig: ToAny(http11Only())},
		XdsMatcher: &matcherv3.Matcher{MatcherType: &matcherv3.Matcher_MatcherList_{MatcherList: &matcherv3.Matcher_MatcherList{
			Matchers: []*matcherv3.Matcher_MatcherList_FieldMatcher{{Predicate: none, OnMatch: skipFilter()}},
		}}},
	})
}

// skipFilter leaves a filter with a matcher out.
func skipFilter() *matcherv3.Matcher_OnMatch {
	return &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "skip", TypedConfig: ToAny(&skipv3.SkipFilter{})},
	}}
}
