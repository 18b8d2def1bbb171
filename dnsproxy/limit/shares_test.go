package limit

import "testing"

// TestShares: who asks alone may have half, and others find room; what is given back can be taken again.
func TestShares(t *testing.T) {
	s := NewShares(12)
	takeAll := func(asker string) (n int) {
		for s.Take(asker) {
			n++
		}
		return n
	}
	if first, second := takeAll("a"), takeAll("b"); first != 6 || second != 3 {
		t.Errorf("the first may have %d of 12, the second %d; want 6 and 3", first, second)
	}
	if !s.Take("c") {
		t.Error("nothing is left for a third")
	}
	if rest := takeAll(""); rest != 2 || s.Taken() != 12 {
		t.Errorf("%d were left for nobody in particular, %d are taken", rest, s.Taken())
	}
	if s.Take("d") || s.Take("") {
		t.Error("more than all was taken")
	}
	for range 6 {
		s.Leave("a")
	}
	if len(s.of) != 2 || takeAll("c") != 3 {
		t.Errorf("after one has left: %+v", s)
	}
}
