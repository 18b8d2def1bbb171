package relay

import (
	"math/rand/v2"
	"time"
)

// Backoff says how long to wait before the next stream to the controller: twice as long each time, up to Max, with
// the second half of it random, so that a fleet does not return as one.
type Backoff struct {
	Min time.Duration // 0 for 200 ms
	Max time.Duration // 0 for 10 s
	now time.Duration
}

func (b *Backoff) next() time.Duration {
	if b.Min == 0 {
		b.Min = 200 * time.Millisecond
	}
	if b.Max == 0 {
		b.Max = 10 * time.Second
	}
	b.now = min(max(2*b.now, b.Min), b.Max)
	return b.now/2 + rand.N(b.now/2+1)
}

func (b *Backoff) reset() { b.now = 0 }
