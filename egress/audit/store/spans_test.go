package store

import (
	"slices"
	"testing"
)

func TestSpans(t *testing.T) {
	tests := []struct {
		add  []uint64
		want string
	}{
		{nil, ""},
		{[]uint64{1, 2, 3}, "1-3"},
		{[]uint64{3, 1, 2}, "1-3"},
		{[]uint64{5, 1, 3, 7}, "1-1,3-3,5-5,7-7"},
		{[]uint64{5, 1, 3, 7, 4, 6}, "1-1,3-7"},
		{[]uint64{1<<64 - 1, 0}, "0-0,18446744073709551615-18446744073709551615"},
	}
	for _, tt := range tests {
		var s spans
		for _, seq := range tt.add {
			var isNew bool
			if s, isNew = s.add(seq); !isNew {
				t.Errorf("%v: %d is not new", tt.add, seq)
			}
			if s, isNew = s.add(seq); isNew {
				t.Errorf("%v: %d is new twice", tt.add, seq)
			}
		}
		if s.String() != tt.want {
			t.Errorf("%v: %s, want %s", tt.add, s, tt.want)
		}
		if back, err := parseSpans(s.String()); err != nil || !slices.Equal(back, s) {
			t.Errorf("%v: reads back as %v, %v", tt.add, back, err)
		}
	}
}

func TestSpansAreBounded(t *testing.T) {
	var s spans
	for i := range uint64(10 * maxSpans) {
		s, _ = s.add(i * 2)
	}
	if len(s) != maxSpans || s[0].lo == 0 || s[len(s)-1].hi != 20*maxSpans-2 {
		t.Errorf("%d spans, the first is %v, the last %v", len(s), s[0], s[len(s)-1])
	}
	if _, isNew := s.add(1); !isNew {
		t.Error("a number that never came is known")
	}
}

// FuzzSpans compares the set with a map, and reads what it wrote.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{1, 2, 3, 9, 8, 1}, "1-2,5-9")
	f.Fuzz(func(t *testing.T, seqs []byte, text string) {
		var s spans
		known := map[uint64]bool{}
		for _, b := range seqs {
			seq := uint64(b)
			var isNew bool
			if s, isNew = s.add(seq); isNew == known[seq] {
				t.Fatalf("%v: %d new: %v", seqs, seq, isNew)
			}
			known[seq] = true
		}
		for i := 1; i < len(s); i++ {
			if s[i].lo <= s[i-1].hi+1 {
				t.Fatalf("%v: %s", seqs, s)
			}
		}
		if parsed, err := parseSpans(text); err == nil {
			if again, err := parseSpans(parsed.String()); err != nil || !slices.Equal(again, parsed) {
				t.Fatalf("%q: %v, %v", text, again, err)
			}
		}
	})
}
