package serve

import (
	"testing"
	"time"
)

// SetTurnTime changes how long a turn lasts, until the test ends. It is for tests that are not parallel.
func SetTurnTime(t *testing.T, d time.Duration) {
	usual := turnTime
	turnTime = d
	t.Cleanup(func() { turnTime = usual })
}
