package egressgateway

import (
	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	sslv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"

	"github.com/sallyport/sallyport/xds/envoy"
)

// oneName closes connections whose client's certificate has several URI names. Who may use a host is asked of any of them,
// and the log could not tell whose the connection is. Envoy joins the names by commas, which are in no SPIFFE id of ours.
func oneName() *listenerv3.Filter {
	several := &cncfmatcherv3.Matcher_MatcherList_Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: &cncfcorev3.TypedExtensionConfig{Name: "envoy.matching.inputs.uri_san", TypedConfig: envoy.ToAny(&sslv3.UriSanInput{})},
			Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &cncfmatcherv3.StringMatcher{
				MatchPattern: &cncfmatcherv3.StringMatcher_Contains{Contains: ","},
			}},
		},
	}}
	return envoy.NetworkFilter("envoy.filters.network.rbac", &netrbacv3.RBAC{
		StatPrefix: "egress_names_",
		Matcher: &cncfmatcherv3.Matcher{
			MatcherType: &cncfmatcherv3.Matcher_MatcherList_{MatcherList: &cncfmatcherv3.Matcher_MatcherList{
				Matchers: []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{{Predicate: several, OnMatch: verdict("several-names", rbacv3.RBAC_DENY)}},
			}},
			OnNoMatch: verdict("one-name", rbacv3.RBAC_ALLOW),
		},
	})
}

func verdict(name string, action rbacv3.RBAC_Action) *cncfmatcherv3.Matcher_OnMatch {
	return &cncfmatcherv3.Matcher_OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Action{Action: &cncfcorev3.TypedExtensionConfig{
		Name: name, TypedConfig: envoy.ToAny(&rbacv3.Action{Name: name, Action: action}),
	}}}
}
