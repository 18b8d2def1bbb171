package feed

import "time"

// HoldOff says when to hand changes on: once it was quiet for a while, but not later than the longest wait after the
// first of them.
type HoldOff struct {
	Quiet, Longest time.Duration

	first time.Time // of the changes that wait; zero when none does
}

// Note takes a change's time and returns how long to wait from then on.
func (h *HoldOff) Note(now time.Time) time.Duration {
	if h.first.IsZero() {
		h.first = now
	}
	return max(0, min(h.Quiet, h.first.Add(h.Longest).Sub(now)))
}

// Done forgets the changes: they were handed on.
func (h *HoldOff) Done() { h.first = time.Time{} }
