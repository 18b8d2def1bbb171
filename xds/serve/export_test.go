package serve

import (
	"testing"
	"time"
)

// SetTurnTime changes how long a turn lasts, until the test ends. It is for tests that are not parallel.
func SetTurnTime(t *testing.T, d time.Duration) {
	usual := heldAtMost.get()
	heldAtMost.set(d)
	t.Cleanup(func() { heldAtMost.set(usual) })
}

// SetNameTime changes how long names wait for somebody who is silent, until the test ends. It is for tests that are not
// parallel.
func SetNameTime(t *testing.T, d time.Duration) {
	usual := nameTime.get()
	nameTime.set(d)
	t.Cleanup(func() { nameTime.set(usual) })
}

// SetRestTime changes how long the cluster of who was asked stays, until the test ends. It is for tests that are not parallel.
func SetRestTime(t *testing.T, d time.Duration) {
	usual := restTime.get()
	restTime.set(d)
	t.Cleanup(func() { restTime.set(usual) })
}

// ViewMade is what happens when a class's view was made.
func (c *Cache) ViewMade() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleLater()
}
