package egressgateway

import (
	"maps"
	"regexp"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// cameFrom matches clients whose certificates name one of these namespaces.
func cameFrom(namespaces []string, trust envoy.TrustDomains) *matcherv3.FilterStateMatcher {
	var all []string
	for _, ns := range namespaces {
		all = append(all, trust.Account(ns, "")...)
	}
	m := envoy.Prefix(all[0])
	if len(all) > 1 {
		for i, p := range all {
			all[i] = regexp.QuoteMeta(p)
		}
		m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "(" + strings.Join(all, "|") + ").*"}}}
	}
	return &matcherv3.FilterStateMatcher{Key: wire.StateClient, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: m}}
}

// access lets the row's audience in, where clients are known.
func (r exitRow) access() map[string]*anypb.Any {
	if !r.at.Verified {
		return nil
	}
	return restricted(r.Audience, r.at.Trust)
}

// letIn notes in a route who may take it, unless it says so itself: a user's route may have an audience of its own.
func letIn(r *routev3.Route, access map[string]*anypb.Any) {
	switch {
	case r.TypedPerFilterConfig == nil:
		r.TypedPerFilterConfig = maps.Clone(access)
	case r.TypedPerFilterConfig[envoy.FilterRBAC] == nil:
		maps.Copy(r.TypedPerFilterConfig, access)
	}
}

// restricted lets only workloads of these namespaces in, by the identity that their certificate proves; nil namespaces
// are everybody.
func restricted(namespaces []string, trust envoy.TrustDomains) map[string]*anypb.Any {
	if namespaces == nil {
		return nil
	}
	policy := &rbacv3.Policy{Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}}}
	for _, ns := range namespaces {
		for _, accounts := range trust.Account(ns, "") {
			policy.Principals = append(policy.Principals, &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
				Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: envoy.Prefix(accounts)},
			}})
		}
	}
	rules := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	if len(policy.Principals) > 0 {
		rules.Policies = map[string]*rbacv3.Policy{"exported": policy}
	}
	return map[string]*anypb.Any{envoy.FilterRBAC: envoy.ToAny(&httprbacv3.RBACPerRoute{Rbac: &httprbacv3.RBAC{Rules: rules}})}
}
