package nodeguard

import (
	"net/netip"
	"slices"
)

// Change is what happens to one set in a transaction.
type Change struct {
	Set    Set // as it will be
	Remove []netip.Prefix
	Add    []netip.Prefix
}

// Diff gives the changes from one plan to the other, which must come from the same options. What is counted for an address
// begins anew when the address gets another owner.
func Diff(have, want Plan) []Change {
	var changes []Change
	for i, set := range want.Sets {
		c := Change{Set: set}
		c.Remove, c.Add = difference(have.Sets[i].Elements, set.Elements)
		if set.Counted {
			for _, e := range set.Elements {
				if was, had := have.Pods[e.Addr()]; had && was != want.Pods[e.Addr()] && !slices.Contains(c.Add, e) {
					c.Remove, c.Add = append(c.Remove, e), append(c.Add, e)
				}
			}
		}
		if len(c.Remove)+len(c.Add) > 0 {
			changes = append(changes, c)
		}
	}
	return changes
}

// difference walks two sorted lists.
func difference(have, want []netip.Prefix) (remove, add []netip.Prefix) {
	for len(have) > 0 || len(want) > 0 {
		switch {
		case len(want) == 0 || len(have) > 0 && have[0].Compare(want[0]) < 0:
			remove, have = append(remove, have[0]), have[1:]
		case len(have) == 0 || want[0].Compare(have[0]) < 0:
			add, want = append(add, want[0]), want[1:]
		default:
			have, want = have[1:], want[1:]
		}
	}
	return remove, add
}
