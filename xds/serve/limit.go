package serve

import (
	"sync"
	"sync/atomic"
	"time"
)

// limit is a length of time that tests change while others run by it.
type limit struct{ nanos atomic.Int64 }

func newLimit(d time.Duration) *limit {
	l := &limit{}
	l.set(d)
	return l
}

func (l *limit) get() time.Duration { return time.Duration(l.nanos.Load()) }

func (l *limit) set(d time.Duration) { l.nanos.Store(int64(d)) }

const (
	// large is how many bytes an answer has that needs a place, until it was written to the connection.
	large = 256 << 10
	// atOnce is how many clients are sent a large answer at a time. When a controller restarts, its proxies come back
	// together: the first ones then have everything soon, instead of all of them late, and a small change for a proxy
	// that is there already does not wait behind them all.
	atOnce = 16
)

// heldAtMost is how long a client may hold its place: a slow one goes on without. Tests change it.
var heldAtMost = newLimit(5 * time.Second)

// semaphore is what large answers wait for.
type semaphore chan struct{}

// acquire waits for a place, which is given up by a call of the function or after heldAtMost. It gives nil when done comes
// first.
func (t semaphore) acquire(done <-chan struct{}) func() {
	select {
	case t <- struct{}{}:
	case <-done:
		return nil
	}
	var once sync.Once
	end := func() { once.Do(func() { <-t }) }
	timer := time.AfterFunc(heldAtMost.get(), end)
	return func() { timer.Stop(); end() }
}
