package dir

import (
	"cmp"
	"log/slog"
	"time"
)

// Options set what has a default.
type Options struct {
	// Logger is told of each finding once; the default discards.
	Logger *slog.Logger
	// Debounce is how long the directory must be quiet before changes are read, so that files which belong
	// together arrive together: 25 ms.
	Debounce time.Duration
	// MaxHoldOff is how long changes wait at most while the directory is not quiet: 100 ms.
	MaxHoldOff time.Duration
	// Rescan is the time between scans for changes that no event told of: 30 s.
	Rescan time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Debounce = cmp.Or(o.Debounce, 25*time.Millisecond)
	o.MaxHoldOff = cmp.Or(o.MaxHoldOff, 100*time.Millisecond)
	o.Rescan = cmp.Or(o.Rescan, 30*time.Second)
	return o
}

// holdOff says when to read changes: once it was quiet for a while, but not later than the longest wait after the
// first of them.
type holdOff struct {
	quiet, longest time.Duration
	first          time.Time // of the changes that wait; zero when none does
}

// note takes a change's time and returns how long to wait from then on.
func (h *holdOff) note(now time.Time) time.Duration {
	if h.first.IsZero() {
		h.first = now
	}
	return max(0, min(h.quiet, h.first.Add(h.longest).Sub(now)))
}

// done forgets the changes: they were read.
func (h *holdOff) done() { h.first = time.Time{} }
