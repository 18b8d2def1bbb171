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
