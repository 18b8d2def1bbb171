package translate

import (
	"regexp"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// headerRegisteredIn tells a gateway which namespace's registration of a host a sidecar follows, where several
// namespaces registered it. It is no order (see orders) and no proof of anything: each registration's routes let in
// whom it is exported to.
const headerRegisteredIn = "sallyport-registered-in"

// cameFrom matches clients whose certificates name one of these namespaces.
func cameFrom(namespaces []string, trust trusts) *matcherv3.FilterStateMatcher {
	var all []string
	for _, ns := range namespaces {
		all = append(all, trust.account(ns, "")...)
	}
	m := prefix(all[0])
	if len(all) > 1 {
		for i, p := range all {
			all[i] = regexp.QuoteMeta(p)
		}
		m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "(" + strings.Join(all, "|") + ").*"}}}
	}
	return &matcherv3.FilterStateMatcher{Key: stateClient, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: m}}
}

// access lets the row's audience in, where clients are known.
func (r exitRow) access() map[string]*anypb.Any {
	if !r.at.Verified {
		return nil
	}
	return restricted(r.Audience, r.at.trust)
}

// restricted lets only workloads of these namespaces in, by the identity that their certificate proves; nil namespaces
// are everybody.
func restricted(namespaces []string, trust trusts) map[string]*anypb.Any {
	if namespaces == nil {
		return nil
	}
	policy := &rbacv3.Policy{Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}}}
	for _, ns := range namespaces {
		for _, accounts := range trust.account(ns, "") {
			policy.Principals = append(policy.Principals, &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
				Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: prefix(accounts)},
			}})
		}
	}
	rules := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	if len(policy.Principals) > 0 {
		rules.Policies = map[string]*rbacv3.Policy{"exported": policy}
	}
	return map[string]*anypb.Any{filterAccess: packed(&httprbacv3.RBACPerRoute{Rbac: &httprbacv3.RBAC{Rules: rules}})}
}

// named tells the gateway whose registration is meant.
func named(r *routev3.Route, svc *registry.Service) *routev3.Route {
	r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: headerRegisteredIn, Value: svc.Namespace},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	})
	return r
}
