package authzfilter

import (
	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// Inputs is how a place sees what rules ask for.
type Inputs struct {
	Domains      []string                         // the mesh's trust domain, and its aliases
	Client       *cncfcorev3.TypedExtensionConfig // the client's verified SPIFFE id, nothing without one
	From, Remote *cncfcorev3.TypedExtensionConfig // the address of the connection, and that of whoever is behind
	To           *cncfcorev3.TypedExtensionConfig // the address that was connected to; nil where that is not what a rule asks for, so that such rules close
	// Port asks for one of the ports of a term's values, and SNI for the name that the client's own TLS says, by an expression (RE2)
	// for "name" with or without ":port".
	Port func(t authz.Term, values []string) *envoy.Predicate
	SNI  func(expression string) *envoy.Predicate
}

// Requests is a tree for requests; every way ends in a ruling.
func Requests(set authz.Set, see Inputs) *envoy.OnMatch {
	return tree(set, see, func(r *authz.Rule, _ authz.Action) *authz.Rule { return r })
}

// Connections is the same for connections whose bytes nobody reads.
func Connections(set authz.Set, see Inputs) *envoy.OnMatch {
	return tree(set, see, (*authz.Rule).OfConnections)
}

// tree asks rules that deny first, then those that allow; as says what a rule asks there, nil for one that never matches.
func tree(set authz.Set, see Inputs, as func(*authz.Rule, authz.Action) *authz.Rule) *envoy.OnMatch {
	var lines []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher
	for _, action := range []authz.Action{authz.Deny, authz.Allow} {
		for _, p := range set.Deciding(action) {
			for i := range p.Rules {
				r := see.reached(as(&p.Rules[i], action), action)
				if r == nil {
					continue
				}
				by := ruling(authz.Ruling{Allows: action == authz.Allow, Policy: p, Rule: r})
				asked := see.rule(r, action)
				if len(asked) == 0 {
					return envoy.OnMatchMatcher(envoy.MatchList(lines, by))
				}
				lines = append(lines, envoy.MatchCase(envoy.AllOf(asked...), by))
			}
		}
	}
	otherwise := envoy.OnMatchVerdict(wire.NoRule, true)
	if allowing := set.Deciding(authz.Allow); len(allowing) > 0 {
		otherwise = ruling(authz.Ruling{Policy: allowing[0]})
	}
	return envoy.OnMatchMatcher(envoy.MatchList(lines, otherwise))
}

// reached is the rule as it is asked there of the address that was connected to; nil where it never matches.
func (s Inputs) reached(r *authz.Rule, action authz.Action) *authz.Rule {
	if r == nil || s.To != nil {
		return r
	}
	return r.ToAnyAddress(action)
}

func ruling(r authz.Ruling) *envoy.OnMatch { return envoy.OnMatchVerdict(Name(r), r.Allows) }

// Name is a ruling as proxies tell of it.
func Name(r authz.Ruling) string {
	n := wire.Rule{
		Verdict: wire.RuleDenies, Rule: r.RuleName(), Revision: r.Policy.Revision,
		Policy: wire.AuthorizationPolicy + "/" + r.Policy.Key.Namespace + "/" + r.Policy.Key.Name,
	}
	if r.Allows {
		n.Verdict = wire.RuleAllows
	}
	return n.String()
}
