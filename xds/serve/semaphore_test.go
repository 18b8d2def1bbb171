package serve

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns holds that no more are at it than there are turns, that nobody waits for one who is gone, and that a slow
// one loses its turn.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := make(semaphore, 2)
		never := make(chan struct{})
		first, second := turns.acquire(never), turns.acquire(never)

		gone := make(chan struct{})
		close(gone)
		if end := turns.acquire(gone); end != nil {
			t.Error("one who is gone has a turn")
		}

		began := time.Now()
		got := make(chan func())
		go func() { got <- turns.acquire(never) }()
		synctest.Wait()
		first()
		third := <-got
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a free turn was taken after %s", waited)
		}
		go func() { got <- turns.acquire(never) }()
		fourth := <-got // when the others' time is over
		if waited := time.Since(began); waited != heldAtMost.get() {
			t.Errorf("the turn of a slow one was taken after %s, want %s", waited, heldAtMost.get())
		}
		for _, end := range []func(){first, second, third, fourth} {
			end()
			end() // twice is once
		}
		if len(turns) != 0 {
			t.Errorf("%d turns are taken at the end", len(turns))
		}
	})
}
