package envoy

import (
	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	envoymatcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// filterAsks is the filter by which a route has somebody asked whether a request may pass. Whom, and how, is all the route's (AskedByRoute): of
// Envoy's own filter for it a route configures a part alone, and one that is asked nobody is none.
const filterAsks = FilterAuthz + ".route"

// asksByRoute does nothing where a route says nothing.
func asksByRoute() *hcmv3.HttpFilter {
	return httpFilter(filterAsks, &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "composite", TypedConfig: ToAny(&compositev3.Composite{})},
		XdsMatcher:      &matcherv3.Matcher{OnNoMatch: skipFilter()},
	})
}

// notTaken are headers that no answer about a request puts into it: where it came from, what the mesh's proxies tell each other, and what is about a
// message's own body and connection. (Host, and orders to proxies, are kept out by other rules.) Proxies take no expression of more than 100 steps
// where nobody allows it.
const notTaken = `te|upgrade|trailer|connection|(content|transfer|keep|proxy|x-forwarded|(x-)?sallyport)-.*`

// AskedByRoute is what a route has that has it asked, by filter. Whoever cannot be asked says no, and what it says of the request changes headers alone.
func (a Authorizer) AskedByRoute() map[string]*anypb.Any {
	f := a.Requests()
	f.FilterEnabledMetadata, f.AllowedHeaders = nil, headersLike(a.SentHeaders)
	f.DecoderHeaderMutationRules.DisallowExpression = &envoymatcherv3.RegexMatcher{Regex: notTaken}
	ask := &compositev3.ExecuteFilterAction{TypedConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.ext_authz", TypedConfig: ToAny(f)}}
	return map[string]*anypb.Any{filterAsks: ToAny(&matchingv3.ExtensionWithMatcherPerRoute{XdsMatcher: &matcherv3.Matcher{
		OnNoMatch: &matcherv3.Matcher_OnMatch{OnMatch: &matcherv3.Matcher_OnMatch_Action{
			Action: &xdscorev3.TypedExtensionConfig{Name: "ask", TypedConfig: ToAny(ask)},
		}},
	}})}
}
