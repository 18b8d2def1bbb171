package egresspolicy

// Step is one rule, or one default, that was asked.
type Step struct {
	Ruling          // what it says if it decides
	Root   bool     // of the root namespace's level, not of the workload's own
	Miss   Mismatch // why the rule does not match; Hit where it does, and of defaults
	// Decides says that the ruling of what is enforced is this one, and Would that it would be if all were enforced.
	Decides, Would bool
}

// Steps are the rules and defaults that lead to what the set says, in the order in which they are asked: of what is enforced up to
// the one that decides, and beside it of what is observed.
func (s Set) Steps(a *Attempt) []Step {
	kept := s.Enforced()
	out := s.Root.steps(a)
	if closed := kept.Root.Rule(a).closing(a); closed.Unregistered {
		out = append(out, Step{Ruling: closed})
	}
	for i := range out {
		out[i].Root = true
	}
	if !kept.Root.Rule(a).closing(a).final() || !s.Root.Rule(a).closing(a).final() {
		out = append(out, s.Own.steps(a)...)
	}
	decides, would := kept.Rule(a), s.Rule(a)
	for i := range out {
		out[i].Decides, out[i].Would = out[i].Ruling == decides, out[i].Ruling == would
	}
	return out
}

func (l Level) steps(a *Attempt) (out []Step) {
	kept, all := l.Enforced().Rule(a), l.Rule(a)
	observed := false // whether the one that would decide was passed
	for _, p := range l {
		for i := range p.Rules {
			if p.Observe && observed {
				break
			}
			r := &p.Rules[i]
			step := Step{Ruling: Ruling{Action: r.Action, Policy: p, Rule: r}, Miss: r.Mismatch(a)}
			if r.unclear(a) {
				step.Ruling, step.Miss = Ruling{Action: Deny, Policy: p, Rule: r, Path: true}, Hit
			}
			out = append(out, step)
			observed = observed || step.Ruling == all
			if step.Ruling == kept {
				return out
			}
		}
	}
	if all.Rule == nil && all.Policy != nil && all != kept {
		out = append(out, Step{Ruling: all})
	}
	if kept.Policy != nil {
		out = append(out, Step{Ruling: kept})
	}
	return out
}
