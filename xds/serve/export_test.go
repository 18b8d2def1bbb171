package serve

import (
	"testing"
	"time"
)

// SetTurnTime changes how long a turn lasts, until the test ends. It is for tests that are not parallel.
func SetTurnTime(t *testing.T, d time.Duration) {
	usual := heldAtMost
	heldAtMost = d
	t.Cleanup(func() { heldAtMost = usual })
}

// SetNameTime changes how long names wait for somebody who is silent, until the test ends. It is for tests that are not
// parallel.
func SetNameTime(t *testing.T, d time.Duration) {
	usual := nameTime
	nameTime = d
	t.Cleanup(func() { nameTime = usual })
}
