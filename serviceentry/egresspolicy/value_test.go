package egresspolicy

import "testing"

// TestValuesAmongOthers: what denies means a value also where a client sends others beside it; what allows means all that is sent.
func TestValuesAmongOthers(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		denied, means  bool
	}{
		{"prod", "prod", true, true}, {"prod", "prod", false, true},
		{"prod", "x,prod", true, true}, {"prod", "prod, x", true, true}, {"prod", "x ,\tprod\t, y", true, true}, {"prod*", "x,production", true, true},
		{"prod", "x,prod", false, false}, {"prod", "prod,x", false, false},
		{"prod", "xprod", true, false}, {"prod", "x,preprod", true, false}, {"prod", "", true, false}, {"*", "", true, true},
	} {
		if got := Matches(ValueRegex(c.pattern, c.denied), c.value); got != c.means {
			t.Errorf("%q means %q, of what denies %t: %t", c.pattern, c.value, c.denied, got)
		}
	}
}
