package authzfilter

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// AskedRequests is a tree of what an authorizer is asked about among requests: what a rule means is denied, which a filter that only notes
// its word does not do (Asked), and all else passes. why says why nobody is asked, and it is really denied; "" where somebody is.
func AskedRequests(set authz.Set, see Inputs, why string) *envoy.OnMatch {
	return askedTree(set, see, why, func(r *authz.Rule) *authz.Rule { return r })
}

// AskedConnections is the same for connections whose bytes nobody reads: what cannot be seen of them is taken for what a rule means.
func AskedConnections(set authz.Set, see Inputs, why string) *envoy.OnMatch {
	return askedTree(set, see, why, func(r *authz.Rule) *authz.Rule { return r.OfConnections(authz.Custom) })
}

func askedTree(set authz.Set, see Inputs, why string, as func(*authz.Rule) *authz.Rule) *envoy.OnMatch {
	var lines []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher
	for _, p := range set.Deciding(authz.Custom) {
		for i := range p.Rules {
			r := see.reached(as(&p.Rules[i]), authz.Custom)
			by := envoy.OnMatchVerdict(nameAsked(p, r, why), false)
			asked := see.rule(r, authz.Custom)
			if len(asked) == 0 {
				return envoy.OnMatchMatcher(envoy.MatchList(lines, by))
			}
			lines = append(lines, envoy.MatchCase(envoy.AllOf(asked...), by))
		}
	}
	return envoy.OnMatchMatcher(envoy.MatchList(lines, envoy.OnMatchVerdict(wire.NoRule, true)))
}

// nameAsked names a rule by which an authorizer is asked, or, with why, by which something is denied since none can be.
func nameAsked(p *authz.Policy, r *authz.Rule, why string) string {
	n := wire.Rule{
		Verdict: wire.RuleAsks, Rule: r.Name, Revision: p.Revision, Reason: p.Provider,
		Policy: wire.AuthorizationPolicy + "/" + p.Key.Namespace + "/" + p.Key.Name,
	}
	if why != "" {
		n.Verdict, n.Reason = wire.RuleDenies, why
	}
	return n.String()
}

// Asked is the filter of access that says which requests an authorizer is asked about: it denies none of them, but notes the rule, by which
// the filter that asks knows (xds/envoy). closed denies what a rule means, since nobody can be asked about it; either may be nil.
func Asked(asks, closed *envoy.OnMatch) *httprbacv3.RBAC {
	f := &httprbacv3.RBAC{RulesStatPrefix: wire.StatAuthz}
	if closed != nil {
		f.Matcher = whole(closed)
	}
	if asks != nil {
		f.ShadowMatcher, f.ShadowRulesStatPrefix = whole(asks), wire.StatAsked
	}
	return f
}

// OfRequestsAlone is why nobody is asked about connections whose bytes nobody reads where the provider is asked by HTTP.
func OfRequestsAlone(provider string) string {
	return "the provider " + provider + " can be asked about requests alone, and this is a connection whose bytes nobody reads"
}
