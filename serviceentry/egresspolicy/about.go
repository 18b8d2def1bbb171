package egresspolicy

import "slices"

// About is the level as far as it may decide about some hosts: without the rules that allow others alone. About others it denies what the whole
// level denies, and may deny more: so who has it in place of that opens nothing. A policy of which no rule is left has no revision, and stays the
// same while only rules are edited that are left out.
func (l Level) About(hosts []string) Level {
	out := make(Level, len(l))
	for i, p := range l {
		out[i] = p.about(hosts)
	}
	return out
}

func (p *Policy) about(hosts []string) *Policy {
	out := *p
	out.Rules, out.closes = nil, p.implied() == Deny
	for i := range p.Rules {
		if r, counts := p.Rules[i].about(hosts); counts {
			out.Rules = append(out.Rules, r)
		}
	}
	if len(out.Rules) == 0 {
		out.Revision = ""
	}
	return &out
}

// DecidesAbout says whether the policy may decide about one of some hosts: by a rule, or by its default.
func (p *Policy) DecidesAbout(hosts []string) bool {
	if p.Default != Unset || p.implied() == Deny {
		return true
	}
	return slices.ContainsFunc(p.Rules, func(r Rule) bool {
		_, counts := r.about(hosts)
		return counts
	})
}

// about is a rule with those of its hosts that mean one of some; false of one that may be left out. A rule that denies is kept whole, and so is one that
// asks for paths, since it denies those that can be taken for others.
func (r Rule) about(hosts []string) (Rule, bool) {
	if r.Action != Allow || len(r.Paths) > 0 || len(r.Hosts) == 0 {
		return r, true
	}
	all := r.Hosts
	r.Hosts = nil
	for _, pattern := range all {
		if slices.ContainsFunc(hosts, func(h string) bool { return Covers(pattern, h) }) {
			r.Hosts = append(r.Hosts, pattern)
		}
	}
	return r, len(r.Hosts) > 0
}
