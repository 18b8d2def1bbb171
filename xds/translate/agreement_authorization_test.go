package translate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestAuthorizationAgreesWithProxies is TestPoliciesAgreeWithProxies in worlds with random AuthorizationPolicies, too.
func TestAuthorizationAgreesWithProxies(t *testing.T) {
	n := max(*worlds/10, 2)
	if raceDetected || testing.Short() {
		n = 2
	}
	d := newDecoder()
	for seed := *firstWorld; seed < *firstWorld+n; seed++ {
		holdAuthorization(t, d, seed)
	}
}

func FuzzAuthorizationAgreesWithProxies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { holdAuthorization(t, newDecoder(), seed) })
}

func holdAuthorization(t *testing.T, d *decoder, seed uint64) {
	t.Helper()
	made, settings, try := randomObjects(seed)
	if seed%3 == 0 {
		made.Governed(registrytest.Namespaces, hostsIn(made.Objects))
	}
	made.Authorized(hostsIn(made.Objects))
	settings.TrustDomainAliases = []string{"old.local"}
	holdAgreementIn(t, d, seed, world{made.Objects, settings}, authorizedTry(policedTry(try)), disagreePoliced)
}

// authorizedTry says where from something is tried, too: policies may ask for that.
func authorizedTry(try func(*rand.Rand, *envoys) tried) func(*rand.Rand, *envoys) tried {
	return func(r *rand.Rand, e *envoys) tried {
		x := try(r, e)
		if x.from.Address = x.at; !x.at.IsValid() {
			x.from.Address = podAddress.Addr()
		}
		return x
	}
}

// authorized adds what a verdict says of AuthorizationPolicies, as far as a record can: what is denied says who denies it alone.
func (o *observed) authorized(v policy.Verdict) {
	of := v.Authorization
	switch {
	case of.Ruling != nil && !of.Ruling.Allows:
		o.Rule, o.WouldDeny = ruleIn(of.Ruling), ""
	case v.Ruling != nil && saidOf(v.Ruling) != "" && !v.Allowed && v.DecidedBy.Key == v.Ruling.Policy.Key:
	default:
		o.Authorized, o.WouldRefuse = ruleIn(of.Ruling), ruleIn(of.WouldDeny)
	}
}

// authorizedBy is what an entry says of AuthorizationPolicies.
func authorizedBy(e interpret.Entry) (rule, would string) {
	if _, _, denied := ruledBy(e); denied.Name != "" {
		return "", ""
	}
	of := e.Metadata[wire.RuleFilter]
	r := wire.Ruled{Authz: of[wire.StatAuthz+wire.EnforcedRule], AuthzObserved: of[wire.StatAuthz+wire.ShadowRule]}
	if said := answeredRules(e); said != "" {
		r = wire.ParseRuled(said)
	}
	if by, ok := wire.ParseRule(r.Authz); ok {
		rule = by.Policy + "/" + by.Rule
	}
	if by, ok := wire.ParseRule(r.AuthzObserved); ok && by.Verdict == wire.RuleDenies {
		would = by.Policy + "/" + by.Rule
	}
	return rule, would
}

// ruleIn is a ruling as proxies name it.
func ruleIn(r *authz.Ruling) string {
	if r == nil {
		return ""
	}
	return wire.AuthorizationPolicy + "/" + r.Policy.Key.Namespace + "/" + r.Policy.Key.Name + "/" + r.RuleName()
}
