package egresspolicy

import (
	"strings"
	"testing"
)

func TestHeaderNames(t *testing.T) {
	for name, want := range map[string]string{
		"debug":         "debug",
		"x-debug":       "x-debug x_debug",
		"x_debug":       "x_debug x-debug",
		"x-my_key":      "x-my_key x-my-key x_my-key x_my_key",
		"a-b-c-d-e-f":   "a-b-c-d-e-f a_b_c_d_e_f",
		"a_b-c-d-e-f":   "a_b-c-d-e-f a-b-c-d-e-f a_b_c_d_e_f",
		"x-a-b-c-d":     "x-a-b-c-d",
		"authorization": "authorization",
	} {
		got := HeaderNames(name, true)
		if name == "x-a-b-c-d" { // four of them: each mixture
			if len(got) != 16 || got[0] != name {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", name, got, want)
		}
		if got := HeaderNames(name, false); len(got) != 1 || got[0] != name {
			t.Errorf("%s, of a rule that allows: %v", name, got)
		}
	}
}

// TestDeniedHeaders: what denies a header means the names that servers take for it; what allows means it as it is written.
func TestDeniedHeaders(t *testing.T) {
	for _, c := range []struct {
		action Action
		header string
		hit    bool
	}{{Deny, "x-debug", true}, {Deny, "x_debug", true}, {Deny, "xdebug", false}, {Allow, "x-debug", true}, {Allow, "x_debug", false}} {
		r := Rule{Action: c.action, Headers: []Header{{"x-debug", "on"}}}
		a := Attempt{Method: "GET", Path: "/", Header: func(name string) (string, bool) { return "on", name == c.header }}
		if got := r.missesRequest(&a) == Hit; got != c.hit {
			t.Errorf("%v of x-debug, %s: %v", c.action, c.header, got)
		}
	}
}
