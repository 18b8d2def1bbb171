package authz

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
)

// DryRunAnnotation makes a policy a dry run where it is "true".
const DryRunAnnotation = "istio.io/dry-run"

// FromSpec makes a policy of an object that admission accepted.
func FromSpec(o *config.Object, spec *security.AuthorizationPolicy) *Policy {
	p := &Policy{
		Key: o.Key, Revision: o.Revision, Selector: spec.GetSelector().GetMatchLabels(), DryRun: o.Annotations[DryRunAnnotation] == "true",
		Action: map[security.AuthorizationPolicy_Action]Action{
			security.AuthorizationPolicy_DENY: Deny, security.AuthorizationPolicy_AUDIT: Audit, security.AuthorizationPolicy_CUSTOM: Custom,
		}[spec.Action],
	}
	targets := spec.TargetRefs
	if spec.TargetRef != nil {
		targets = append(targets[:len(targets):len(targets)], spec.TargetRef)
	}
	for _, t := range targets {
		if p.Services == nil {
			p.Services = []string{}
		}
		if t.Kind == "Service" {
			p.Services = append(p.Services, t.Name)
		}
	}
	for i, r := range spec.Rules {
		if p.Action == Deny || !asksUnknown(r) {
			p.Rules = append(p.Rules, ruleOf(o.Namespace, i, r))
		}
	}
	return p
}

// asksUnknown says whether a rule asks for what nobody here can tell. Admission refuses such rules; one that is there all the same
// allows nothing, and denies without asking for that.
func asksUnknown(r *security.Rule) bool {
	return slices.ContainsFunc(r.From, func(f *security.Rule_From) bool {
		return len(f.GetSource().GetRequestPrincipals())+len(f.GetSource().GetNotRequestPrincipals()) > 0
	}) || slices.ContainsFunc(r.When, func(c *security.Condition) bool { _, ok := ConditionTerm("", c); return !ok })
}

func ruleOf(ns string, i int, r *security.Rule) Rule {
	out := Rule{Name: fmt.Sprintf("rules[%d]", i)}
	for _, from := range r.From {
		out.From = append(out.From, sourceTerms(ns, from.GetSource()))
	}
	for _, to := range r.To {
		out.To = append(out.To, operationTerms(to.GetOperation()))
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
	)
}

func operationTerms(o *security.Operation) []Term {
	return given(
		Term{Attribute: Port, Values: o.GetPorts(), Not: o.GetNotPorts()},
		Term{Attribute: Host, Values: o.GetHosts(), Not: o.GetNotHosts()},
		Term{Attribute: Method, Values: o.GetMethods(), Not: o.GetNotMethods()},
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
	"source.serviceaccount": ServiceAccount, "source.trustdomain": TrustDomain, "destination.port": Port, "connection.sni": SNI,
}

// ConditionTerm reads a condition of a policy of a namespace; false where nothing knows its key.
func ConditionTerm(ns string, c *security.Condition) (Term, bool) {
	if name, ok := strings.CutPrefix(c.Key, "request.headers["); ok && strings.HasSuffix(name, "]") {
		return Term{Attribute: Header, Header: strings.ToLower(strings.TrimSuffix(name, "]")), Values: c.Values, Not: c.NotValues}, true
	}
	attribute, ok := conditions[strings.ToLower(c.Key)]
	t := Term{Attribute: attribute, Values: c.Values, Not: c.NotValues}
	switch attribute {
	case SourceIP, RemoteIP:
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
