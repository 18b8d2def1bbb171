package limit

import "testing"

// takeAll takes as many as there are.
func (s *Shares) takeAll(share Share) (n int) {
	for s.Take(share) {
		n++
	}
	return n
}

// TestShares: who asks alone may have half, and others find room; what is given back can be taken again.
func TestShares(t *testing.T) {
	s := NewShares(12)
	a, b, c, d := Share{Of: "a"}, Share{Of: "b"}, Share{Of: "c"}, Share{Of: "d"}
	if first, second := s.takeAll(a), s.takeAll(b); first != 6 || second != 3 {
		t.Errorf("the first may have %d of 12, the second %d; want 6 and 3", first, second)
	}
	if !s.Take(c) {
		t.Error("nothing is left for a third")
	}
	if rest := s.takeAll(Share{}); rest != 2 || s.Taken() != 12 {
		t.Errorf("%d were left for nobody in particular, %d are taken", rest, s.Taken())
	}
	if s.Take(d) || s.Take(Share{}) {
		t.Error("more than all was taken")
	}
	for range 6 {
		s.Leave(a)
	}
	if len(s.of) != 2 || s.takeAll(c) != 3 {
		t.Errorf("after one has left: %+v", s)
	}
}

// TestSharesOfParts: what one asker has of one thing leaves room for what he has of another, and of many things he has no more than of one. Parts of
// nobody in particular are as askers are; and those of the same name are apart that several askers have.
func TestSharesOfParts(t *testing.T) {
	s := NewShares(512)
	one := s.takeAll(Share{Of: "a", Part: "x"})
	if one < 128 || one > 192 || !s.Take(Share{Of: "a", Part: "y"}) {
		t.Errorf("one thing of one asker may have %d of 512, and nothing is left for another one", one)
	}
	for i := range 512 {
		s.Take(Share{Of: "a", Part: string(rune(0x1000 + i))})
	}
	if s.Taken() != 256 {
		t.Errorf("one asker may have %d of 512, want half", s.Taken())
	}
	if others := s.takeAll(Share{Of: "b", Part: "x"}); others < 64 {
		t.Errorf("of the same thing another one may have %d", others)
	}
	if !s.Take(Share{Part: "x"}) {
		t.Error("nothing is left for nobody in particular")
	}
	s = NewShares(12)
	if first, second := s.takeAll(Share{Part: "x"}), s.takeAll(Share{Part: "y"}); first != 6 || second != 3 {
		t.Errorf("parts of nobody in particular may have %d and %d of 12, want 6 and 3", first, second)
	}
	for range 6 {
		s.Leave(Share{Part: "x"})
	}
	for range 3 {
		s.Leave(Share{Part: "y"})
	}
	if len(s.of) != 0 || s.Taken() != 0 {
		t.Errorf("after all have left: %+v", s)
	}
}
