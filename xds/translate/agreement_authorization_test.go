package translate_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestAuthorizationAgreesWithProxies is TestPoliciesAgreeWithProxies in worlds with random AuthorizationPolicies, too.
func TestAuthorizationAgreesWithProxies(t *testing.T) {
	n := max(*worlds/10, 2)
	if registrytest.Raced || testing.Short() {
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
	settings.Audit.Mesh = mesh.MeshAll // so that the log says which Service it was
	if seed%3 == 0 {
		made.Governed(registrytest.Namespaces, hostsIn(made.Objects))
	}
	made.Authorized(hostsIn(made.Objects))
	settings.TrustDomainAliases = []string{"old.local"}
	if seed%2 == 0 {
		made.Asking(hostsIn(made.Objects))
		settings.Authorizers = []mesh.Authorizer{
			{Name: "grpc", GRPC: true, Host: registrytest.AuthorizerHost, Port: 9191, Timeout: time.Second, StatusOnError: 403},
			{Name: "http", Host: registrytest.AuthorizerHost, Port: 9192, Timeout: time.Second, StatusOnError: 403, FailOpen: seed%4 == 0},
		}
	}
	holdAgreementIn(t, d, seed, world{objects: made.Objects, mesh: settings}, authorizedTry(policedTry(try)), disagreePoliced)
}

// authorizedTry says where from something is tried, too: policies may ask for that.
func authorizedTry(try func(*rand.Rand, *envoys) tried) func(*rand.Rand, *envoys) tried {
	return func(r *rand.Rand, e *envoys) tried {
		x := try(r, e)
		if e.objects[config.Key{Kind: config.KindServiceEntry, Namespace: "istio-system", Name: "asked"}] != nil && r.IntN(2) == 0 {
			x.Host, x.as, x.Port = registrytest.AskedHost, registrytest.AskedHost, one(r, []uint32{80, 80, 443, 5432})
			x.Scheme = map[uint32]policy.Scheme{80: policy.HTTP, 443: policy.TLS, 5432: policy.TCP}[x.Port]
		}
		if x.from.Address = x.at; !x.at.IsValid() {
			x.from.Address = podAddress.Addr()
		}
		return x
	}
}

// authorized adds what a verdict says of AuthorizationPolicies, as far as a record can: what is denied says who denies it alone.
func (o *observed) authorized(v policy.Verdict) {
	of := v.Authorization
	if of.Asks != nil && (v.Allowed || v.Ruling == nil || v.DecidedBy.Key != v.Ruling.Policy.Key) {
		o.Asks = of.Asks.Policy.Provider + " " + ruleIn(of.Asks)
	}
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

// askedBy is the rule by which an entry says that an authorizer was asked.
func askedBy(e interpret.Entry) string {
	by, ok := wire.ParseRule(e.Metadata[wire.RuleFilter][wire.StatAsked+wire.ShadowRule])
	if !ok || by.Verdict != wire.RuleAsks {
		return "by no rule"
	}
	return by.Policy + "/" + by.Rule
}

// ruleIn is a ruling as proxies name it.
func ruleIn(r *authz.Ruling) string {
	if r == nil {
		return ""
	}
	return wire.AuthorizationPolicy + "/" + r.Policy.Key.Namespace + "/" + r.Policy.Key.Name + "/" + r.RuleName()
}
