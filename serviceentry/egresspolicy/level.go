package egresspolicy

import "slices"

// Level is the policies of one namespace that select a workload, in order (Policy.Compare).
type Level []*Policy

// Ruling is what a level says.
type Ruling struct {
	Action Action // Unset: it says nothing
	Policy *Policy
	Rule   *Rule // nil where it is the default
	// Path says that the request's path was refused, since it can be taken for another one.
	Path bool
	// Unknown says that the workload was refused, since nobody knows its labels.
	Unknown bool
	// Unregistered says that nobody registered the host, and no rule that decides lets it out.
	Unregistered bool
}

// RuleUnregistered is what decides of what nobody registered and no rule lets out.
const RuleUnregistered = "unregistered"

// RuleName is what records and explanations call what decided.
func (r Ruling) RuleName() string {
	switch {
	case r.Unregistered:
		return RuleUnregistered
	case r.Unknown:
		return "selector"
	case r.Path:
		return r.Rule.Name + ".paths"
	case r.Rule == nil:
		return "default"
	default:
		return r.Rule.Name
	}
}

// Enforced are those of the level that are not observed only.
func (l Level) Enforced() Level {
	if !l.Observes() {
		return l
	}
	return slices.DeleteFunc(slices.Clone(l), (*Policy).observed)
}

// Observes says whether one of them is observed only.
func (l Level) Observes() bool { return slices.ContainsFunc(l, (*Policy).observed) }

// Unsettles says whether what the level allows for good might be narrowed if what it observes were enforced: another rule decides then.
func (l Level) Unsettles() bool {
	return l.Observes() && slices.ContainsFunc(l, func(p *Policy) bool {
		return !p.Observe && slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Final })
	})
}

// Rule says what the level says of what is asked: the first rule that matches decides, else the default. A path that servers may
// take for another one is denied where a rule with paths comes to be asked.
func (l Level) Rule(a *Attempt) Ruling {
	for _, p := range l {
		for i := range p.Rules {
			r := &p.Rules[i]
			if r.unclear(a) {
				return Ruling{Action: Deny, Policy: p, Rule: r, Path: true}
			}
			if r.Matches(a) {
				return Ruling{Action: r.Action, Policy: p, Rule: r}
			}
		}
	}
	action, by := l.Default()
	return Ruling{Action: action, Policy: by}
}

// unclear says whether the rule asks for paths, would match the request but for that, and cannot know it.
func (r *Rule) unclear(a *Attempt) bool {
	if len(r.Paths) == 0 || a.Protocol != HTTP || a.PathUnknown != nil || IsNormal(a.Path) {
		return false
	}
	any := *r
	any.Paths = nil
	return any.Matches(a)
}

// Default is what the level says of what no rule matches, and the policy that says so: the first with a default of its own, else
// the first that allows something, and so denies the rest.
func (l Level) Default() (Action, *Policy) {
	for _, p := range l {
		if p.Default != Unset {
			return p.Default, p
		}
	}
	for _, p := range l {
		if p.implied() == Deny {
			return Deny, p
		}
	}
	return Unset, nil
}

// Set is all that governs a workload.
type Set struct{ Root, Own Level }

// Empty says that nothing does.
func (s Set) Empty() bool { return len(s.Root)+len(s.Own) == 0 }

// Enforced is the set without what is observed only.
func (s Set) Enforced() Set { return Set{s.Root.Enforced(), s.Own.Enforced()} }

// Observes says whether a policy is observed only.
func (s Set) Observes() bool { return s.Root.Observes() || s.Own.Observes() }

// Rule says what the set says: first the root namespace's level, then the workload's own. Allow means that no policy stands in
// the way; Unset, that none says anything.
func (s Set) Rule(a *Attempt) Ruling {
	root := s.Root.Rule(a).closing(a)
	if root.final() {
		return root
	}
	own := s.Own.Rule(a)
	if own.Action == Unset {
		return root
	}
	return own
}

// final says whether a ruling of the root namespace leaves nothing to others.
func (r Ruling) final() bool {
	return r.Action == Deny || r.Action == Allow && r.Rule != nil && r.Rule.Final
}

// closing is what a ruling of the root namespace comes to where nobody registered the host: only a rule that says so lets it out.
func (r Ruling) closing(a *Attempt) Ruling {
	if a.Closed == nil || r.Action == Deny || r.LetsOut() {
		return r
	}
	return Ruling{Action: Deny, Policy: a.Closed, Unregistered: true}
}

// LetsOut says whether it is a rule's that lets out what nobody registered.
func (r Ruling) LetsOut() bool { return r.Action == Allow && r.Rule != nil && r.Rule.Unregistered }

// LetsOut says whether a rule of the level that is enforced lets out what nobody registered.
func (l Level) LetsOut() bool {
	return slices.ContainsFunc(l, func(p *Policy) bool {
		return !p.Observe && slices.ContainsFunc(p.Rules, func(r Rule) bool { return r.Unregistered })
	})
}
