package feed

import (
	"testing"
	"time"
)

func TestHoldOff(t *testing.T) {
	h := HoldOff{Quiet: 50 * time.Millisecond, Longest: 500 * time.Millisecond}
	at := time.Unix(0, 0)
	for _, c := range []struct{ after, want time.Duration }{
		{0, 50 * time.Millisecond},
		{100 * time.Millisecond, 50 * time.Millisecond},
		{470 * time.Millisecond, 30 * time.Millisecond},
		{600 * time.Millisecond, 0},
	} {
		if got := h.Note(at.Add(c.after)); got != c.want {
			t.Errorf("after %v wait %v, want %v", c.after, got, c.want)
		}
	}
	h.Done()
	if got := h.Note(at.Add(time.Second)); got != h.Quiet {
		t.Errorf("after Done wait %v", got)
	}
}
