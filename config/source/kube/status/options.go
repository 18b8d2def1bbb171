package status

import (
	"cmp"
	"log/slog"
	"time"
)

// Options set what has a default.
type Options struct {
	Logger *slog.Logger // the default discards
	// Settle is how long a change waits for others of the same object: 300 ms.
	Settle time.Duration
	// Rest is how long an object is left alone after a write, so that two control planes which disagree about it do
	// not fight at full speed: 5 s.
	Rest time.Duration
	// PerSecond is how many objects are written a second, each with two requests: 20.
	PerSecond float64
	// Workers is how many writes are under way at once: 4.
	Workers int
	// RetryMin and RetryMax are the pauses after the first and after many failures: 250 ms, 30 s.
	RetryMin, RetryMax time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Settle = cmp.Or(o.Settle, 300*time.Millisecond)
	o.Rest = cmp.Or(o.Rest, 5*time.Second)
	o.PerSecond = cmp.Or(o.PerSecond, 20)
	o.Workers = cmp.Or(o.Workers, 4)
	o.RetryMin = cmp.Or(o.RetryMin, 250*time.Millisecond)
	o.RetryMax = cmp.Or(o.RetryMax, 30*time.Second)
	return o
}
