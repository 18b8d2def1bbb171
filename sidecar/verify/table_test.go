package verify

import (
	"strings"
	"testing"
)

// TestPrintedIsText: what a server answered, or a pod reported, tells a terminal nothing.
func TestPrintedIsText(t *testing.T) {
	for _, hostile := range []string{"\x1b]0;mine\x07", "\x1b[2J", "\r✓ names closed", "\u202eneddih", "\x9b31m", "\u2028"} {
		r := Result{Way: "names" + hostile, Tried: "it" + hostile, Verdict: Verdict("open" + hostile), Seen: answer{200, "hello " + hostile + " é 漢 <b>"}.String()}
		var out strings.Builder
		Report{[]Result{r}}.Print(&out)
		if got := out.String(); strings.Contains(got, hostile) || strings.ContainsAny(got, "\x1b\r\x07\u202e\u0085\u009b") || !strings.Contains(got, "é 漢 <b>") {
			t.Errorf("%q: %q", hostile, got)
		}
	}
}
