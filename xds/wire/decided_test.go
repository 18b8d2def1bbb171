package wire

import "testing"

// TestDecided: what is joined comes apart again, also where there is less of it; and the text of no object can be taken for two values.
func TestDecided(t *testing.T) {
	type values = [len(DecidedTags)]string
	for _, v := range []values{{}, {"mesh", "0123", "Service/a/b", "VirtualService/a/c"}, {"-", "--", "-", "-"}, {"", "", "", "a b\n"}, {"", "x", InDecided("a|b"), InDecided("|c|")}} {
		if got := SplitDecided(JoinDecided(v)); got != v {
			t.Errorf("%q comes apart as %q", v, got)
		}
	}
	for text, want := range map[string]values{"": {}, "mesh": {"mesh"}, "mesh|0": {"mesh", "0"}, "|||": {}, "a|b|c|d|e": {"a", "b", "c", "d|e"}} {
		if got := SplitDecided(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
