package authz

import "slices"

// Set is all policies of a workload, in order.
type Set []*Policy

// Ruling is what a set says.
type Ruling struct {
	Decides bool // false: it says nothing
	Allows  bool
	Policy  *Policy
	Rule    *Rule // nil where no rule that allows matches
}

// RuleName is what records and explanations call what decided.
func (r Ruling) RuleName() string {
	if r.Rule == nil {
		return "default"
	}
	return r.Rule.Name
}

// Enforced is the set without what is a dry run.
func (s Set) Enforced() Set {
	if !s.DryRuns() {
		return s
	}
	return slices.DeleteFunc(slices.Clone(s), func(p *Policy) bool { return p.DryRun })
}

// DryRuns says whether a policy is a dry run.
func (s Set) DryRuns() bool { return slices.ContainsFunc(s, func(p *Policy) bool { return p.DryRun }) }

// Known says whether all that the policies' rules look at, of requests or of connections, is still known of one that is open: who its client is, from where, the port, a request's method and path. The
// host that a request said, its other headers, its token, and the name that a client's own TLS said are not.
func (s Set) Known(requests bool) bool {
	unknown := func(t Term) bool {
		return t.Attribute == SNI || requests && t.OfRequests() && t.Attribute != Method && t.Attribute != Path
	}
	return !slices.ContainsFunc(s, func(p *Policy) bool {
		return slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.any(unknown) })
	})
}

// Deciding are those with an action, in order.
func (s Set) Deciding(a Action) (out Set) {
	for _, p := range s {
		if p.Action == a {
			out = append(out, p)
		}
	}
	return out
}

// Rule says what the set says of what is asked: a rule that denies, else one that allows, and where there are policies that allow and
// none of their rules matches, the first of them denies.
func (s Set) Rule(a *Attempt) Ruling {
	for _, p := range s.Deciding(Deny) {
		if r := p.matching(a); r != nil {
			return Ruling{Decides: true, Policy: p, Rule: r}
		}
	}
	allowing := s.Deciding(Allow)
	for _, p := range allowing {
		if r := p.matching(a); r != nil {
			return Ruling{Decides: true, Allows: true, Policy: p, Rule: r}
		}
	}
	if len(allowing) == 0 {
		return Ruling{}
	}
	return Ruling{Decides: true, Policy: allowing[0]}
}

// matching is the policy's first rule that matches; nil without one.
func (p *Policy) matching(a *Attempt) *Rule {
	for i := range p.Rules {
		if p.Rules[i].matches(a, p.Action) {
			return &p.Rules[i]
		}
	}
	return nil
}

// Step is one rule, or the default, that was asked.
type Step struct {
	Ruling
	Matches, Decides bool
}

// Steps are the rules that lead to what is enforced, in the order in which they are asked, and beside them those of dry runs: those by which an
// authorizer is asked come first, and those that only mark last.
func (s Set) Steps(a *Attempt) []Step {
	return slices.Concat(s.beside(a, Custom), s.deciding(a), s.beside(a, Audit))
}

// beside are rules that do not decide.
func (s Set) beside(a *Attempt, action Action) (out []Step) {
	for _, p := range s.Deciding(action) {
		for i := range p.Rules {
			out = append(out, Step{Ruling{Policy: p, Rule: &p.Rules[i]}, p.Rules[i].matches(a, action), false})
		}
	}
	return out
}

func (s Set) deciding(a *Attempt) (out []Step) {
	decides := s.Enforced().Rule(a)
	for _, action := range []Action{Deny, Allow} {
		for _, p := range s.Deciding(action) {
			for i := range p.Rules {
				r := Ruling{Decides: true, Allows: action == Allow, Policy: p, Rule: &p.Rules[i]}
				out = append(out, Step{r, p.Rules[i].matches(a, action), r == decides})
				if r == decides {
					return out
				}
			}
		}
	}
	if decides.Decides {
		out = append(out, Step{decides, true, true})
	}
	return out
}
