package kube

import (
	"cmp"
	"log/slog"
	"time"
)

// Options set what has a default.
type Options struct {
	// Logger is told of each finding once, and of what client-go has to say; the default discards.
	Logger *slog.Logger
	// Debounce is how long it must be quiet before changes are handed on, so that objects which belong together
	// arrive together: 25 ms.
	Debounce time.Duration
	// MaxHoldOff is how long changes wait at most while it is not quiet: 100 ms.
	MaxHoldOff time.Duration
	// Patience is how long the first batch waits for kinds that the API server says it cannot list, counted from when
	// it listed another: 30 s. For a server that does not answer it waits for ever.
	Patience time.Duration
	// Judged, if set, is given what was found about each version of the objects whose status is written, in order of
	// their keys, before the changes of the same batch are handed on, and by the same goroutine.
	Judged func([]Assessment)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Debounce = cmp.Or(o.Debounce, 25*time.Millisecond)
	o.MaxHoldOff = cmp.Or(o.MaxHoldOff, 100*time.Millisecond)
	o.Patience = cmp.Or(o.Patience, 30*time.Second)
	if o.Judged == nil {
		o.Judged = func([]Assessment) {}
	}
	return o
}
