package policyfilter

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// filter is the filter of access for a level: what decides, and, where policies of it or before it are observed, what would if they were
// enforced. A filter that closes what nobody registered (closing) does so also to those whom no policy is for.
func filter(stat string, g resolve.Governed, observedBefore, closes bool, render renders) *httprbacv3.RBAC {
	f := &httprbacv3.RBAC{RulesStatPrefix: stat}
	if enforced := g.Enforced(); !enforced.Empty() || closes {
		f.Matcher = whole(render(enforced, false))
	}
	if g.Observes() || observedBefore && !g.Empty() {
		f.ShadowMatcher, f.ShadowRulesStatPrefix = whole(render(g, true)), stat
	}
	return f
}

// renders make a matching tree of who is governed: of what is enforced, or of what would be if all policies were.
type renders func(g resolve.Governed, observed bool) *envoy.OnMatch

// whole is a matcher of what comes anyway.
func whole(m *envoy.OnMatch) *cncfmatcherv3.Matcher {
	if inner := m.GetMatcher(); inner != nil {
		return inner
	}
	return &cncfmatcherv3.Matcher{OnNoMatch: m}
}

// governed tells the workloads of a namespace apart by their certificates, and where that is not enough by their addresses.
func (say says) governed(ns string, trust envoy.TrustDomains) renders {
	return func(g resolve.Governed, _ bool) *envoy.OnMatch {
		others := say.subject(g.Others)
		if len(g.Accounts) == 0 {
			return others
		}
		if ns == "" {
			return say.inAnyNamespace(g, trust)
		}
		accounts := map[string]*envoy.OnMatch{}
		for _, a := range g.Accounts {
			for _, id := range trust.Account(ns, a.Name) {
				accounts[id] = say.subject(a.Subject)
			}
		}
		return envoy.OnMatchMatcher(envoy.ExactMatchMap(client(), accounts, others))
	}
}

// inAnyNamespace tells accounts apart by their names alone.
func (say says) inAnyNamespace(g resolve.Governed, trust envoy.TrustDomains) *envoy.OnMatch {
	var lines []*line
	for _, a := range g.Accounts {
		lines = append(lines, envoy.MatchCase(envoy.InputMatches(client(), trust.AccountAnywhere(a.Name)), say.subject(a.Subject)))
	}
	return envoy.OnMatchMatcher(envoy.MatchList(lines, say.subject(g.Others)))
}

func (say says) subject(s resolve.Subject) *envoy.OnMatch {
	others := say.level(s.Level)
	if s.Unknown {
		others = say(egresspolicy.Ruling{Action: egresspolicy.Deny, Policy: s.By(), Unknown: true})
	}
	if len(s.At) == 0 {
		return others
	}
	at := map[string]*envoy.OnMatch{}
	for _, a := range s.At {
		at[a.Address.String()] = say.level(a.Level)
	}
	return envoy.OnMatchMatcher(envoy.ExactMatchMap(from(), at, others))
}

// notNarrowed lets what the root namespace allowed for good pass by a namespace's own level.
func notNarrowed(render renders) renders {
	return func(g resolve.Governed, observed bool) *envoy.OnMatch {
		final := envoy.RuledBefore(wire.StatRoot+wire.EnforcedRule, wire.RuleFinal+"|")
		if observed { // the root namespace's observed policies may say something else
			final = envoy.AnyOf(
				envoy.RuledBefore(wire.StatRoot+wire.ShadowRule, wire.RuleFinal+"|"),
				envoy.AllOf(envoy.Not(envoy.NotedBefore(wire.StatRoot+wire.ShadowRule)), final))
		}
		return envoy.OnMatchMatcher(envoy.MatchList([]*line{envoy.MatchCase(final, nothing())}, render(g, observed)))
	}
}

// letOut tells what nobody registered from the rest, where rules let something of it out: mesh is the object that closes it otherwise, ""
// where none do.
func letOut(mesh string, render func(says) renders) renders {
	if mesh == "" {
		return render(ruling)
	}
	return func(g resolve.Governed, observed bool) *envoy.OnMatch {
		return envoy.OnMatchMatcher(envoy.ExactMatchMap(envoy.StateInput(wire.StateOutside),
			map[string]*envoy.OnMatch{wire.LetOutByPolicy: render(closing(mesh))(g, observed)}, render(ruling)(g, observed)))
	}
}
