package translate_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate/interpret"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestPoliciesAgreeWithProxies is TestDecideAgreesWithProxies in worlds with random EgressPolicies, and people whom they govern: also
// which rule decides has to be the same, and what would, if policies that are observed were enforced.
func TestPoliciesAgreeWithProxies(t *testing.T) {
	n := max(*worlds*4/5, 2)
	if registrytest.Raced || testing.Short() {
		n = 2
	}
	d := newDecoder()
	for seed := *firstWorld; seed < *firstWorld+n; seed++ {
		holdPolicies(t, d, seed)
	}
}

// TestRowsThatDoNotSayTheirHost are an older controller's, which an exit may have for a moment with a new one's listeners: nothing else happens to a request.
func TestRowsThatDoNotSayTheirHost(t *testing.T) {
	d := newDecoder()
	d.unsaid = true
	for seed := range uint64(40) {
		holdPolicies(t, d, 1+seed)
	}
}

func FuzzPoliciesAgreeWithProxies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { holdPolicies(t, newDecoder(), seed) })
}

func holdPolicies(t *testing.T, d *decoder, seed uint64) {
	t.Helper()
	made, settings, try := randomObjects(seed)
	settings.Audit.Mesh = mesh.MeshAll // so that the log says which Service it was
	made.Governed(append([]string{"store"}, registrytest.Namespaces...), hostsIn(made.Objects))
	holdAgreementIn(t, d, seed, world{objects: made.Objects, mesh: settings}, policedTry(try), disagreePoliced)
}

// hostsIn are what entries register, in name order.
func hostsIn(objects map[config.Key]*config.Object) (out []string) {
	for _, key := range (world{objects: objects}).keys() {
		if e, ok := objects[key].Spec.(*networking.ServiceEntry); ok {
			out = append(out, e.Hosts...)
			for _, a := range e.Addresses {
				if _, err := netip.ParseAddr(a); err == nil {
					out = append(out, a)
				}
			}
		}
	}
	return append(out, "nobody.test")
}

// policedTry tries what another one tries, or a host that a policy names, as one of the people, or as somebody else.
func policedTry(try func(*rand.Rand, *envoys) tried) func(*rand.Rand, *envoys) tried {
	return func(r *rand.Rand, e *envoys) tried {
		x := try(r, e)
		if host := policedHost(r, e); host != "" && r.IntN(2) == 0 {
			x.Host = host
			x = x.inSomeCase(r)
		}
		x.At = registrytest.PolicyTime.Add(time.Duration(r.IntN(5)-1) * 500 * time.Millisecond)
		x.from.Account, x.from.Labels, x.at = one(r, registrytest.Accounts), nil, netip.Addr{}
		if all := peopleIn(e, x.from.Namespace); len(all) > 0 && r.IntN(5) > 0 {
			p := one(r, all)
			x.at = one(r, p.Addresses)
			if r.IntN(6) > 0 {
				x.from.Account = p.Account
			}
			for _, there := range all { // who has that account at that address is that workload, and explain is asked about no other
				if there.Account == x.from.Account && slices.Contains(there.Addresses, x.at) {
					x.from.Labels = there.Labels
				}
			}
		}
		if x.Scheme == policy.HTTP {
			x.Path, x.Method = one(r, registrytest.PathsTried), one(r, []string{"", "POST", "PUT"})
			if r.IntN(3) == 0 {
				x.Headers = map[string][]string{"x-team": one(r, [][]string{{"a"}, {"ab"}, {"b"}, {"axb"}, {""}, {"b", "a"}, {"c, a ,b"}, {"a", "c"}, {"ab,", "c"}})}
			}
		}
		return x
	}
}

func policedHost(r *rand.Rand, e *envoys) string {
	var all []string
	for _, key := range (world{objects: e.objects}).keys() {
		if p, ok := e.objects[key].Spec.(*v1alpha1.EgressPolicy); ok {
			for _, rule := range p.Rules {
				all = append(all, rule.Hosts...)
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	host := strings.Replace(one(r, all), "*.", one(r, []string{"q.", "q.q.", ""}), 1)
	if host == "*" {
		return ""
	}
	return strings.ToLower(host)
}

// peopleIn are the workloads that a namespace's objects tell of.
func peopleIn(e *envoys, ns string) (out []registry.LabeledWorkload) {
	for _, key := range (world{objects: e.objects}).keys() {
		if key.Namespace != ns {
			continue
		}
		switch o := e.objects[key]; spec := o.Spec.(type) {
		case *corev1.Pod:
			p := registry.LabeledWorkload{Account: spec.Spec.ServiceAccountName, Labels: spec.Labels, Addresses: []netip.Addr{netip.MustParseAddr(spec.Status.PodIP)}}
			for _, more := range spec.Status.PodIPs {
				p.Addresses = append(p.Addresses, netip.MustParseAddr(more.IP))
			}
			out = append(out, p)
		case *networking.WorkloadEntry:
			if at, err := netip.ParseAddr(spec.Address); err == nil && spec.ServiceAccount != "" {
				out = append(out, registry.LabeledWorkload{Account: spec.ServiceAccount, Labels: spec.Labels, Addresses: []netip.Addr{at}})
			}
		}
	}
	return out
}

func disagreePoliced(e *envoys, w world, x tried) (disagreement, bool) {
	v := policy.Decide(e.snapshot, x.from, x.Destination)
	want := decided(v)
	if v.Path == policy.PathGateway {
		want = unknownTo(e.snapshot, x, v, want)
	}
	got, steps, err := e.happens(x)
	if errors.Is(err, errNoName) || errors.Is(err, errSilent) {
		return disagreement{}, false
	}
	return disagreement{w, x, want, got, steps, err}, err != nil || got != want
}

// unknownTo is a verdict for a workload at its address, where Decide believes what is said of its labels: a gateway asks the registry.
func unknownTo(s *registry.Snapshot, x tried, v policy.Verdict, want observed) observed {
	set := egresspolicy.Set{Root: s.RootPolicies(x.from.Namespace), Own: s.OwnPolicies(x.from.Namespace)}
	if unknownIn(s, set.Root, x) == nil && unknownIn(s, set.Own, x) == nil {
		return want
	}
	if r := ruleAt(s, set.Enforced(), x, v.Asked); r.Action == egresspolicy.Deny {
		want.Allowed, want.DecidedBy, want.Rule, want.WouldDeny = false, r.Policy.Key, saidOf(&r), ""
		want.Authorized, want.WouldRefuse, want.Asks = "", "", "" // what is denied is asked about no further
		return want
	}
	if r := ruleAt(s, set, x, v.Asked); r.Action == egresspolicy.Deny && want.DecidedBy.Kind != config.KindAuthorizationPolicy {
		want.WouldDeny = saidOf(&r)
	}
	return want
}

// ruleAt is egresspolicy.Set's Rule for a workload that is known by its address.
func ruleAt(s *registry.Snapshot, set egresspolicy.Set, x tried, what *egresspolicy.Attempt) egresspolicy.Ruling {
	of := func(l egresspolicy.Level) egresspolicy.Ruling {
		if p := unknownIn(s, l, x); p != nil {
			return egresspolicy.Ruling{Action: egresspolicy.Deny, Policy: p, Unknown: true}
		}
		return l.Selecting(x.from.Account, x.from.Labels).Rule(what)
	}
	root := of(set.Root)
	if what != nil && what.Closed != nil && root.Action != egresspolicy.Deny && !root.LetsOut() {
		return egresspolicy.Ruling{Action: egresspolicy.Deny, Policy: what.Closed, Unregistered: true}
	}
	if own := of(set.Own); root.Action != egresspolicy.Deny && (root.Rule == nil || !root.Rule.Final) && own.Action != egresspolicy.Unset {
		return own
	}
	return root
}

// unknownIn is the policy of a level for whose sake a workload is refused, of which it cannot be known whether labels select it.
func unknownIn(s *registry.Snapshot, l egresspolicy.Level, x tried) *egresspolicy.Policy {
	at, account := x.at, x.from.Account
	if !at.IsValid() {
		at = podAddress.Addr()
	}
	var by *egresspolicy.Policy
	for _, p := range l {
		if by == nil && len(p.Labels) > 0 && (len(p.Accounts) == 0 || slices.Contains(p.Accounts, account)) {
			by = p
		}
	}
	var there []egresspolicy.Level
	for _, p := range s.People(x.from.Namespace) {
		if p.Account == account && slices.Contains(p.Addresses, at) {
			there = append(there, l.Selecting(account, p.Labels))
		}
	}
	known := len(there) > 0 && !slices.ContainsFunc(there, func(o egresspolicy.Level) bool { return !slices.Equal(o, there[0]) })
	if by == nil || known {
		return nil
	}
	return by
}

// ruledBy is what an entry says of policies: the rule that decided, and the one that would deny if all were enforced.
func ruledBy(e interpret.Entry) (rule, would string, denied config.Key) {
	of := e.Metadata[wire.RuleFilter]
	r := wire.Ruled{
		Root: of[wire.StatRoot+wire.EnforcedRule], Own: of[wire.StatOwn+wire.EnforcedRule],
		RootObserved: of[wire.StatRoot+wire.ShadowRule], OwnObserved: of[wire.StatOwn+wire.ShadowRule],
	}
	if said := answeredRules(e); said != "" {
		r = wire.ParseRuled(said)
	}
	if said := e.Metadata[wire.AnswerFilter][wire.AnswerDenied]; said != "" {
		r.Own = strings.TrimSpace(said)
	}
	if by, ok := wire.ParseRule(of[wire.StatAuthz+wire.EnforcedRule]); ok && by.Verdict == wire.RuleDenies {
		r.Own = by.String()
	}
	by, ok := wire.ParseRule(r.Own)
	if !ok {
		by, ok = wire.ParseRule(r.Root)
	}
	if ok {
		rule = by.Policy + "/" + by.Rule
	}
	if by.Verdict == wire.RuleDenies {
		kind, namespace, name := by.Object()
		denied = config.Key{Kind: config.Kind(kind), Namespace: namespace, Name: name}
		if kind == wire.MeshConfig {
			rule = namespace + "/" + name + "/" + by.Rule
		}
		return rule, "", denied
	}
	for _, text := range []string{r.RootObserved, r.OwnObserved} {
		if by, ok := wire.ParseRule(text); ok && by.Verdict == wire.RuleDenies && would == "" {
			_, namespace, name := by.Object()
			would = namespace + "/" + name + "/" + by.Rule
		}
	}
	return rule, would, denied
}

// answeredRules is what the question about a connection was answered of rules: here, or where the listener before asked it.
func answeredRules(e interpret.Entry) string {
	if said := e.Tags[wire.TagRules]; said != "" && said != "-" {
		return said
	}
	return e.Metadata[wire.AnswerFilter][wire.AnswerRules]
}

// saidOf is a ruling in the same words.
func saidOf(r *egresspolicy.Ruling) string {
	if r == nil {
		return ""
	}
	return r.Policy.Key.Namespace + "/" + r.Policy.Key.Name + "/" + r.RuleName()
}
