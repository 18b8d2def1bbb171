package admission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	security "istio.io/api/security/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/selection"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// addVerifying notes a RequestAuthentication that verifies tokens.
func (w *world) addVerifying(o *config.Object, spec *security.RequestAuthentication) {
	if len(spec.JwtRules) > 0 {
		w.verifying[o.Namespace] = append(w.verifying[o.Namespace], tokens.FromSpec(o, spec, func(tokens.Source) string { return "" }))
	}
}

// checkTokens warns of rules that ask for a request's token where nobody verifies any, and of issuers whose tokens nobody verifies: no request has what they ask for.
func (w *world) checkTokens(r *report, p *security.AuthorizationPolicy, policy *authz.Policy) {
	does, asks := map[authz.Action][2]string{
		authz.Allow:  {"nobody is let through by it", "everybody is let through by it whom the rest of the rule means"},
		authz.Deny:   {"no request is denied by it", "every request is denied by it that the rest of the rule means"},
		authz.Custom: {"nobody is asked about a request by it", "the provider is asked about every request that the rest of the rule means"},
	}[policy.Action]
	if !asks {
		return
	}
	j := tokenJudge{r: r, never: does[0], always: does[1]}
	for i, rule := range p.Rules {
		for k, from := range rule.From {
			if s, field := from.GetSource(), at("spec.rules", i)+fmt.Sprintf(".from[%d].source", k); len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals()) > 0 {
				j.asked = append(j.asked, tokenTerm{authz.RequestPrincipal, field + ".requestPrincipals", field + ".notRequestPrincipals", s.GetRequestPrincipals(), s.GetNotRequestPrincipals()})
			}
		}
		for k, c := range rule.When {
			t, known := authz.ConditionTerm(r.of.Namespace, c)
			if field := at("spec.rules", i) + fmt.Sprintf(".when[%d]", k); known && (t.Attribute == authz.RequestPrincipal || t.Attribute == authz.Claim) {
				of := t.Attribute
				if len(t.Claim) == 1 && t.Claim[0] == "iss" {
					of = issuers
				}
				j.asked = append(j.asked, tokenTerm{of, field + ".values", field + ".notValues", c.Values, c.NotValues})
			}
		}
	}
	if len(j.asked) == 0 {
		return
	}
	verifying := w.verifyingFor(policy.Workloads)
	if len(verifying) == 0 {
		j.nobodyVerifies(w.whereVerified(policy.Workloads))
		return
	}
	j.othersVerify(verifying)
}

// issuers stands, among the attributes of terms, for the claim of a token that names its issuer.
const issuers = authz.Claim + 1

// tokenTerm is what a rule asks of a token.
type tokenTerm struct {
	of           authz.Attribute
	field, notIn string
	values, not  []string
}

// tokenJudge says what follows for the terms of a policy. never and always are what a rule comes to whose term holds for no request, or for every one.
type tokenJudge struct {
	r             *report
	asked         []tokenTerm
	never, always string
}

// nobodyVerifies says that no request has a token that was verified.
func (j *tokenJudge) nobodyVerifies(fix string) {
	const nobody = "no RequestAuthentication is for what this policy selects, so no token is verified there and no request has one: "
	for _, t := range j.asked {
		if len(t.values) > 0 {
			j.r.warn(t.field, strings.Join(t.values, ", "), nobody+j.never, fix)
		} else {
			j.r.warn(t.notIn, strings.Join(t.not, ", "), nobody+j.always, fix)
		}
	}
}

// othersVerify says of issuers that no RequestAuthentication names which may be for the same workloads.
func (j *tokenJudge) othersVerify(by []*tokens.Authentication) {
	var known []string
	for _, a := range by {
		for _, rule := range a.Rules {
			if !slices.Contains(known, rule.Issuer) {
				known = append(known, rule.Issuer)
			}
		}
	}
	slices.Sort(known)
	for _, t := range j.asked {
		for _, v := range t.values {
			if issuer := issuerOf(t.of, v); issuer != nil && !slices.ContainsFunc(known, issuer.MatchString) {
				follows := j.never
				if len(t.values) > 1 {
					follows = "this value never counts"
				}
				j.r.warn(t.field, v, "no RequestAuthentication that is for what this policy selects verifies tokens of this issuer, but of "+listedTexts(known)+": "+follows,
					"write ISSUER/SUBJECT with an issuer that is verified, letter by letter, or add a rule with this issuer to "+by[0].Key.String())
			}
		}
	}
}

// issuerOf matches the issuers of whose tokens a value can be; nil where it says nothing of them.
func issuerOf(of authz.Attribute, value string) *regexp.Regexp {
	var expression string
	switch of {
	case authz.RequestPrincipal:
		expression = authz.Subjects([]string{value})[0].Issuer
	case issuers:
		expression = authz.Term{Attribute: authz.Claim}.Expression([]string{value}, nil)
	default:
		return nil
	}
	out, err := regexp.Compile("^(?:" + expression + ")$")
	if err != nil {
		return nil // it is none that any proxy is given
	}
	return out
}

// listedTexts names three at most.
func listedTexts(all []string) string {
	shown := strings.Join(all[:min(3, len(all))], ", ")
	if more := len(all) - 3; more > 0 {
		return fmt.Sprintf("%s and %d more", shown, more)
	}
	return shown
}

// verifyingFor are the RequestAuthentications that may be for workloads that a policy is for. Those that are known are told apart by their labels; where none is known, or
// it is gateways and waypoints that are meant, all count that may be.
func (w *world) verifyingFor(p selection.Workloads) (out []*tokens.Authentication) {
	add := func(list []*tokens.Authentication, may func(*tokens.Authentication) bool) {
		for _, a := range list {
			if may(a) {
				out = append(out, a)
			}
		}
	}
	root := w.cfg.RootNamespace
	switch own := p.Namespace; {
	case own == root || len(p.Services)+len(p.Entries) > 0: // of any namespace: the waypoint of a Service may be in another
		for _, ns := range sortedKeys(w.verifying) {
			add(w.verifying[ns], func(a *tokens.Authentication) bool {
				return own == root || ns == own || ns == root || a.Targeted
			})
		}
	default:
		add(w.verifying[own], func(a *tokens.Authentication) bool { return w.verifiesThere(p, a.Workloads) })
		add(w.verifying[root], func(a *tokens.Authentication) bool {
			return len(a.Classes) > 0 && p.Targeted || !a.Targeted && w.verifiesThere(p, a.Workloads)
		})
	}
	return out
}

// verifiesThere says whether a policy and a RequestAuthentication, of one namespace or the root namespace, may be for the same workloads.
func (w *world) verifiesThere(p, a selection.Workloads) bool {
	if slices.ContainsFunc(a.Gateways, func(name string) bool { return a.Namespace == p.Namespace && slices.Contains(p.Gateways, name) }) {
		return true
	}
	for _, x := range w.chosenBy(p) {
		if slices.ContainsFunc(w.chosenBy(a), func(y map[string]string) bool { return w.meet(p.Namespace, x, y) }) {
			return true
		}
	}
	return false
}

// chosenBy are labels of pods, with all of one of which what is chosen begins. Waypoints keep what targets them, and nothing by their labels.
func (w *world) chosenBy(s selection.Workloads) (out []map[string]string) {
	if !s.Targeted {
		return []map[string]string{s.Selector}
	}
	for _, name := range s.Gateways {
		o, known := w.kubeGateways[config.Key{Kind: config.KindKubeGateway, Namespace: s.Namespace, Name: name}]
		if !known || !gatewayapi.IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
			out = append(out, map[string]string{selection.GatewayName: name})
		}
	}
	for _, name := range s.Services {
		var labels map[string]string // of one that is not known: any
		if spec := w.specs[host.Name(name+"."+s.Namespace+"."+clusterDomain)]; spec != nil {
			labels = spec.Spec.Selector
		}
		out = append(out, labels)
	}
	return out
}

// meet says whether pods of a namespace may have the labels of both: where any is known that has the first, one of these does.
func (w *world) meet(ns string, a, b map[string]string) bool {
	known := false
	for _, x := range w.workloads[ns] {
		if !hasLabels(x.labels, a) {
			continue
		}
		if known = true; hasLabels(x.labels, b) {
			return true
		}
	}
	return !known && !contradict(a, b)
}

// whereVerified says what to write so that tokens are verified.
func (w *world) whereVerified(p selection.Workloads) string {
	same := "with the same selector"
	switch {
	case p.Targeted:
		same = "with the same targetRefs"
		if len(p.Services)+len(p.Entries) > 0 {
			same = "that targets the Gateway that is their waypoint, or the gateway's Service"
		}
	case len(p.Selector) == 0:
		same = "without a selector"
	}
	return fmt.Sprintf("write a RequestAuthentication %s into namespace %s, or into %s for all, with the issuer in jwtRules, or ask for something else", same, p.Namespace, w.cfg.RootNamespace)
}
