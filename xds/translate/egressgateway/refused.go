package egressgateway

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// headerHops has a sign for each exit of a mesh that a request went through. Requests that cannot come back do not have
// it. The signs are in one value, since of several values Envoy compares the first.
const (
	headerHops = "sallyport-hops"
	oneMore    = "%REQ(" + headerHops + ")%+" // of none, Envoy writes "-"
	tooMany    = "+++"                        // three exits, or one three times; two in a row may be meant
)

// mayComeBack says whether what an exit sends could find its way into an exit again, whatever the address that it is sent
// to is behind: into a gateway only with a client's certificate, into a forward proxy only as plain HTTP. A tunnel does
// not come back by itself: each turn would have to be in the client's own bytes.
func (r exitRow) mayComeBack() bool {
	if r.at.Verified {
		return r.TLS != nil && r.TLS.Mode == registry.TLSMutual
	}
	return r.TLS == nil || r.TLS.Mode == registry.TLSDisable
}

// anyMayComeBack says so of the row's own way, and of those of users' routes.
func (r exitRow) anyMayComeBack(routes []resolve.Route) bool {
	return r.mayComeBack() || slices.ContainsFunc(routes, func(x resolve.Route) bool {
		return slices.ContainsFunc(x.To, func(t resolve.WeightedDestination) bool {
			return t.Row != nil && (exitRow{t.Row, r.at}.mayComeBack() || t.TLS != nil && t.TLS.Mode == registry.TLSMutual)
		})
	})
}

// countHops marks the requests of these routes, and ends those that come back.
func countHops(routes []*routev3.Route) []*routev3.Route {
	marked := false
	for _, r := range routes {
		if r.GetRoute() == nil || r.GetMatch().GetConnectMatcher() != nil {
			continue
		}
		marked = true
		r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: headerHops, Value: oneMore}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	if !marked {
		return routes // nothing but tunnels goes there
	}
	match := envoy.MatchAnyRequest()
	match.Headers = []*routev3.HeaderMatcher{{Name: headerHops, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: tooMany}},
	}}}
	end := envoy.Refuse(wire.LoopRoute, match, 508, "sallyport: %REQ(:AUTHORITY)% leads back to the proxy that this request went through\n", nil)
	return slices.Insert(routes, 0, end)
}

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
