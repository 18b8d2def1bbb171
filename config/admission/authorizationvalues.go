package admission

import (
	"slices"
	"strings"

	security "istio.io/api/security/v1"
)

// neverMatched warns of values that a rule asks for, and that nothing has: one that denies by them denies nothing.
func (r *report) neverMatched(field string, values []string, is func(string) bool, problem, fix string) {
	for _, v := range values {
		if v != "" && is(v) {
			r.warn(field, v, problem, fix)
		}
	}
}

// stars warns of "*" where it stands for itself.
func (r *report) stars(field string, values []string) {
	r.neverMatched(field, values, func(v string) bool {
		rest, leading := strings.CutPrefix(v, "*")
		if !leading {
			rest = strings.TrimSuffix(v, "*")
		}
		return strings.Contains(rest, "*")
	}, `"*" stands for any text at the beginning or at the end, once, and for itself anywhere else, so that nothing is likely to match`, "write one at the beginning or at the end alone")
}

func (r *report) sourceValues(field string, s *security.Source) {
	principals := slices.Concat(s.GetPrincipals(), s.GetNotPrincipals())
	r.stars(field+".principals", principals)
	r.principals(field+".principals", principals)
	r.stars(field+".namespaces", slices.Concat(s.GetNamespaces(), s.GetNotNamespaces()))
	r.stars(field+".trustDomains", slices.Concat(s.GetTrustDomains(), s.GetNotTrustDomains()))
}

func (r *report) principals(field string, values []string) {
	r.neverMatched(field, values, func(v string) bool { return strings.HasPrefix(v, "spiffe:") },
		"principals are written without spiffe://, so nobody is this one", "write TRUST-DOMAIN/ns/NAMESPACE/sa/ACCOUNT")
}

func (r *report) operationValues(field string, o *security.Operation) {
	paths := slices.Concat(o.GetPaths(), o.GetNotPaths())
	r.stars(field+".hosts", slices.Concat(o.GetHosts(), o.GetNotHosts()))
	r.stars(field+".paths", slices.DeleteFunc(slices.Clone(paths), func(v string) bool { return strings.Contains(v, "{") }))
	r.neverMatched(field+".paths", paths, func(v string) bool { return !strings.ContainsAny(v[:1], "/*{") },
		`every path begins with "/", so none is this one`, `write "/" before it, or "*" for any beginning`)
	r.neverMatched(field+".methods", slices.Concat(o.GetMethods(), o.GetNotMethods()), func(v string) bool { return v != strings.ToUpper(v) },
		"methods are compared letter by letter, and requests have them in capitals", "write it in capitals")
}

// account judges the name of a service account: there are no patterns of them.
func (r *report) account(field, a string) {
	if strings.Contains(a, "*") || strings.Count(a, "/") > 1 || strings.HasPrefix(a, "/") || strings.HasSuffix(a, "/") || a == "" {
		r.reject(field, a, "is no service account", "write NAMESPACE/ACCOUNT, or ACCOUNT of the policy's own namespace")
	}
}
