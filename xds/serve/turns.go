package serve

import (
	"sync"
	"time"
)

const (
	// large is how many bytes an answer has that needs a turn, until it was written to the connection.
	large = 256 << 10
	// atOnce is how many clients are sent a large answer at a time. When a controller restarts, its proxies come back
	// together: the first ones then have everything soon, instead of all of them late, and a small change for a proxy
	// that is there already does not wait behind them all.
	atOnce = 16
)

// turnTime is how long a client may keep its turn: a slow one goes on without. Tests change it.
var turnTime = 5 * time.Second

// turns are what large answers wait for.
type turns chan struct{}

// take waits for a turn, which ends with a call of the function or after turnTime. It gives nil when done comes
// first.
func (t turns) take(done <-chan struct{}) func() {
	select {
	case t <- struct{}{}:
	case <-done:
		return nil
	}
	var once sync.Once
	end := func() { once.Do(func() { <-t }) }
	timer := time.AfterFunc(turnTime, end)
	return func() { timer.Stop(); end() }
}
