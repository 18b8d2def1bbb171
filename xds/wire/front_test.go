package wire

import "testing"

func TestFront(t *testing.T) {
	for _, f := range []Front{{In: "delta", Kind: KindTCP}, {In: "delta"}} {
		if got, is := ParseFront(f.Tag()); !is || got != f {
			t.Errorf("%q is %+v, %t", f.Tag(), got, is)
		}
	}
	for _, other := range []string{"", "-", "443", "443~shop", WaypointAgain, "decide-any|delta|tcp"} {
		if got, is := ParseFront(other); is {
			t.Errorf("%q is %+v", other, got)
		}
	}
}
