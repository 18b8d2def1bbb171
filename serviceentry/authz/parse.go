package authz

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// DryRunAnnotation makes a policy a dry run where it is "true".
const DryRunAnnotation = "istio.io/dry-run"

// FromSpec makes a policy of an object that admission accepted.
func FromSpec(o *config.Object, spec *security.AuthorizationPolicy) *Policy {
	p := &Policy{
		Key: o.Key, Revision: o.Revision, Workloads: selection.Of(o.Namespace, spec.Selector, spec.TargetRef, spec.TargetRefs), DryRun: o.Annotations[DryRunAnnotation] == "true",
		Provider: spec.GetProvider().GetName(),
		Action: map[security.AuthorizationPolicy_Action]Action{
			security.AuthorizationPolicy_DENY: Deny, security.AuthorizationPolicy_AUDIT: Audit, security.AuthorizationPolicy_CUSTOM: Custom,
		}[spec.Action],
	}
	p.DryRun = p.DryRun && p.Action != Custom // nobody is asked who does not decide
	for i, r := range spec.Rules {
		if p.Action != Allow || !asksUnknown(r) {
			p.Rules = append(p.Rules, ruleOf(o.Namespace, i, r, p.Action))
		}
	}
	return p
}

// asksUnknown says whether a rule asks for what nobody here can tell. Admission refuses such rules; one that is there all the same
// allows nothing, and denies, or has somebody asked, without asking for that.
func asksUnknown(r *security.Rule) bool {
	return slices.ContainsFunc(r.When, func(c *security.Condition) bool { _, ok := ConditionTerm("", c); return !ok })
}

func ruleOf(ns string, i int, r *security.Rule, action Action) Rule {
	out := Rule{Name: fmt.Sprintf("rules[%d]", i)}
	for _, from := range r.From {
		out.From = append(out.From, sourceTerms(ns, from.GetSource()))
	}
	for _, to := range r.To {
		out.To = append(out.To, operationTerms(to.GetOperation(), action))
	}
	for _, c := range r.When {
		if t, ok := ConditionTerm(ns, c); ok {
			out.When = append(out.When, t)
		}
	}
	return out
}

func sourceTerms(ns string, s *security.Source) []Term {
	return given(
		Term{Attribute: Principal, Values: s.GetPrincipals(), Not: s.GetNotPrincipals()},
		Term{Attribute: Namespace, Values: s.GetNamespaces(), Not: s.GetNotNamespaces()},
		Term{Attribute: ServiceAccount, Values: accountsIn(ns, s.GetServiceAccounts()), Not: accountsIn(ns, s.GetNotServiceAccounts())},
		Term{Attribute: TrustDomain, Values: s.GetTrustDomains(), Not: s.GetNotTrustDomains()},
		Term{Attribute: SourceIP, Ranges: ranges(s.GetIpBlocks()), NotRanges: ranges(s.GetNotIpBlocks())},
		Term{Attribute: RemoteIP, Ranges: ranges(s.GetRemoteIpBlocks()), NotRanges: ranges(s.GetNotRemoteIpBlocks())},
		Term{Attribute: RequestPrincipal, Values: s.GetRequestPrincipals(), Not: s.GetNotRequestPrincipals()},
	)
}

func operationTerms(o *security.Operation, action Action) []Term {
	return given(
		Term{Attribute: Port, Values: o.GetPorts(), Not: o.GetNotPorts()},
		Term{Attribute: Host, Values: o.GetHosts(), Not: o.GetNotHosts()},
		Term{Attribute: Method, Values: o.GetMethods(), Folds: action != Allow},
		Term{Attribute: Method, Not: o.GetNotMethods(), Folds: action == Allow},
		Term{Attribute: Path, Values: o.GetPaths(), Not: o.GetNotPaths()},
	)
}

// given are those of the terms that ask for something.
func given(terms ...Term) (out []Term) {
	for _, t := range terms {
		if len(t.Values)+len(t.Not)+len(t.Ranges)+len(t.NotRanges) > 0 {
			out = append(out, t)
		}
	}
	return out
}

// conditions are the keys of conditions, in lower case.
var conditions = map[string]Attribute{
	"source.ip": SourceIP, "remote.ip": RemoteIP, "source.namespace": Namespace, "source.principal": Principal,
	"source.serviceaccount": ServiceAccount, "source.trustdomain": TrustDomain, "destination.ip": DestinationIP, "destination.port": Port, "connection.sni": SNI,
	"request.auth.principal": RequestPrincipal, "request.auth.audiences": Claim, "request.auth.presenter": Claim,
}

// claims are the claims that keys of conditions stand for (RFC 7519 section 4.1.3; OpenID Connect Core section 2).
var claims = map[string]string{"request.auth.audiences": "aud", "request.auth.presenter": "azp"}

// claimPath reads "request.auth.claims[a][b]".
func claimPath(key string) ([]string, bool) {
	rest, ok := strings.CutPrefix(key, "request.auth.claims[")
	rest, closed := strings.CutSuffix(rest, "]")
	path := strings.Split(rest, "][")
	return path, ok && closed && !slices.Contains(path, "") && !strings.ContainsAny(strings.Join(path, ""), "[]")
}

// ConditionTerm reads a condition of a policy of a namespace; false where nothing knows its key.
func ConditionTerm(ns string, c *security.Condition) (Term, bool) {
	if name, ok := strings.CutPrefix(c.Key, "request.headers["); ok && strings.HasSuffix(name, "]") {
		return Term{Attribute: Header, Header: strings.ToLower(strings.TrimSuffix(name, "]")), Values: c.Values, Not: c.NotValues}, true
	}
	if path, ok := claimPath(c.Key); ok {
		return Term{Attribute: Claim, Claim: path, Values: c.Values, Not: c.NotValues}, true
	}
	key := strings.ToLower(c.Key)
	attribute, ok := conditions[key]
	t := Term{Attribute: attribute, Values: c.Values, Not: c.NotValues}
	switch attribute {
	case Claim:
		t.Claim = []string{claims[key]}
	case SourceIP, RemoteIP, DestinationIP:
		t.Ranges, t.NotRanges, t.Values, t.Not = ranges(c.Values), ranges(c.NotValues), nil, nil
	case ServiceAccount:
		t.Values, t.Not = accountsIn(ns, c.Values), accountsIn(ns, c.NotValues)
	}
	return t, ok
}

// accountsIn completes the names of service accounts with the policy's namespace.
func accountsIn(ns string, list []string) []string {
	var out []string
	for _, a := range list {
		if !strings.Contains(a, "/") {
			a = ns + "/" + a
		}
		out = append(out, a)
	}
	return out
}

// Range reads an address, or a range of them.
func Range(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if p.Addr().Is4In6() && p.Bits() >= 96 { // addresses are held against it as those of IPv4 that they are
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), err
}

func ranges(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, text := range list {
		if p, err := Range(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}
