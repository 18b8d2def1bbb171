package authz

import "slices"

// Providers are the names of the authorizers that the set has asked, each once, in order.
func (s Set) Providers() (out []string) {
	for _, p := range s.Deciding(Custom) {
		out = append(out, p.Provider)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Asking finds the rule by which an authorizer is asked about something, before all other rules; false where none is.
func (s Set) Asking(a *Attempt) (Ruling, bool) {
	for _, p := range s.Deciding(Custom) {
		if r := p.matching(a); r != nil {
			return Ruling{Policy: p, Rule: r}, true
		}
	}
	return Ruling{}, false
}
