package authz

import "slices"

// AddressUnknown is what depends on the client's address is said to depend on.
const AddressUnknown = "address"

// Depends says what the set's enforced word depends on beside what is asked: "method", "path", "header" or "token" of requests, and the client's
// "address" where nobody knows it. Nothing means that all requests like this one fare alike.
func (s Set) Depends(a *Attempt) (on []string) {
	may := map[Action]bool{}  // some like it match
	must := map[Action]bool{} // all do
	for _, p := range s.Enforced() {
		for i := range p.Rules {
			r := &p.Rules[i]
			bare, left := r.without(a)
			switch {
			case !bare.matches(a, p.Action):
			case len(left) == 0:
				must[p.Action] = true
			default:
				may[p.Action] = true
				on = append(on, left...)
			}
		}
	}
	none := len(s.Enforced().Deciding(Allow)) > 0 && !may[Allow] && !must[Allow] // matches any that allows
	if must[Deny] || none || !may[Deny] && (must[Allow] || len(s.Enforced().Deciding(Allow)) == 0) {
		return nil
	}
	slices.Sort(on)
	return slices.Compact(on)
}

// without is the rule without what it asks of the request itself, and of an address that nobody knows; and what that is.
func (r *Rule) without(a *Attempt) (*Rule, []string) {
	names := map[Attribute]string{Method: "method", Path: "path", Header: "header", RequestPrincipal: "token", Claim: "token"}
	if !a.From.IsValid() {
		names[SourceIP], names[RemoteIP] = AddressUnknown, AddressUnknown
	}
	var left []string
	keep := func(terms []Term) (out []Term) {
		for _, t := range terms {
			if name := names[t.Attribute]; name == "" || a.Request == nil && t.OfRequests() {
				out = append(out, t)
			} else {
				left = append(left, name)
			}
		}
		return out
	}
	bare := &Rule{Name: r.Name, When: keep(r.When)}
	for _, terms := range r.From {
		bare.From = append(bare.From, keep(terms))
	}
	for _, terms := range r.To {
		bare.To = append(bare.To, keep(terms))
	}
	return bare, left
}
