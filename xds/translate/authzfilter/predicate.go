package authzfilter

import (
	"net/netip"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/xds/envoy"
)

// rule is what a rule asks for, all of which has to hold; nothing for one that asks for nothing.
func (s Inputs) rule(r *authz.Rule, action authz.Action) (out []*envoy.Predicate) {
	for _, list := range [][][]authz.Term{r.From, r.To} {
		if one := s.alternatives(list, action); one != nil {
			out = append(out, one)
		}
	}
	return append(out, s.terms(r.When, action)...)
}

// alternatives ask for one of several lists of terms; nil where that is no question.
func (s Inputs) alternatives(list [][]authz.Term, action authz.Action) *envoy.Predicate {
	var out []*envoy.Predicate
	for _, terms := range list {
		asked := s.terms(terms, action)
		if len(asked) == 0 {
			return nil
		}
		out = append(out, envoy.AllOf(asked...))
	}
	if len(out) == 0 {
		return nil
	}
	return envoy.AnyOf(out...)
}

func (s Inputs) terms(list []authz.Term, action authz.Action) (out []*envoy.Predicate) {
	for _, t := range list {
		out = append(out, s.term(t, action)...)
	}
	return out
}

// term asks for a term's values, and for none of those that it excludes. What cannot be told of an abnormal path is taken for what
// denies, or has somebody asked.
func (s Inputs) term(t authz.Term, action authz.Action) (out []*envoy.Predicate) {
	if len(t.Values)+len(t.Ranges) > 0 {
		out = append(out, s.values(t, t.Values, t.Ranges))
	}
	if len(t.Not)+len(t.NotRanges) > 0 {
		out = append(out, envoy.Not(s.values(t, t.Not, t.NotRanges)))
	}
	if t.Attribute != authz.Path || len(out) == 0 {
		return out
	}
	abnormal := envoy.InputMatches(envoy.HeaderInput(":path"), authz.Abnormal)
	if action != authz.Allow {
		return []*envoy.Predicate{envoy.AnyOf(abnormal, envoy.AllOf(out...))}
	}
	return append([]*envoy.Predicate{envoy.Not(abnormal)}, out...)
}

func (s Inputs) values(t authz.Term, values []string, ranges []netip.Prefix) *envoy.Predicate {
	switch t.Attribute {
	case authz.RequestPrincipal:
		return subjects(values)
	case authz.Claim:
		return envoy.ClaimIsLike(t.Claim, t.Expression(values, nil))
	}
	expression := t.Expression(values, s.Domains)
	switch t.Attribute {
	case authz.SourceIP:
		return envoy.InputInRanges(s.From, ranges)
	case authz.RemoteIP:
		return envoy.InputInRanges(s.Remote, ranges)
	case authz.DestinationIP:
		return envoy.InputInRanges(s.To, ranges)
	case authz.Port:
		return s.Port(t, values)
	case authz.SNI:
		return s.SNI(expression)
	case authz.Host:
		return envoy.InputMatches(envoy.HeaderInput(":authority"), expression)
	case authz.Method:
		return envoy.InputMatches(envoy.HeaderInput(":method"), expression)
	case authz.Path:
		return envoy.InputMatches(envoy.HeaderInput(":path"), expression)
	case authz.Header:
		return envoy.InputMatches(envoy.HeaderInput(t.Header), expression)
	default:
		return envoy.InputMatches(s.Client, expression)
	}
}

// subjects ask for the principal of a request's token.
func subjects(values []string) *envoy.Predicate {
	var any []*envoy.Predicate
	for _, s := range authz.Subjects(values) {
		any = append(any, envoy.AllOf(envoy.ClaimIsLike([]string{"iss"}, s.Issuer), envoy.ClaimIsLike([]string{"sub"}, s.Subject)))
	}
	return envoy.AnyOf(any...)
}
