package serve

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/xds/resource"
)

// SetTurnTime changes how long a turn lasts, until the test ends. It is for tests that are not parallel.
func SetTurnTime(t *testing.T, d time.Duration) { setLimit(t, heldAtMost, d) }

// SetNameTime changes how long names wait for somebody who is silent, until the test ends. It is for tests that are not
// parallel.
func SetNameTime(t *testing.T, d time.Duration) { setLimit(t, nameTime, d) }

// SetExitMoment changes how long gateways are waited for before rows go alone, until the test ends. It is for tests that are not parallel.
func SetExitMoment(t *testing.T, d time.Duration) { setLimit(t, exitMoment, d) }

// SetRestTime changes how long the cluster of who was asked stays, until the test ends. It is for tests that are not parallel.
func SetRestTime(t *testing.T, d time.Duration) { setLimit(t, restTime, d) }

// ViewMade is what happens when a class's view was made.
func (c *Cache) ViewMade() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settleLater()
}

// SetFrontTime changes how long rows wait for a waypoint that is silent, until the test ends. It is for tests that are not parallel.
func SetFrontTime(t *testing.T, d time.Duration) { setLimit(t, frontTime, d) }

// SetFrontRest changes how long a pod's row stays at its waypoint, until the test ends. It is for tests that are not parallel.
func SetFrontRest(t *testing.T, d time.Duration) { setLimit(t, frontRest, d) }

func setLimit(t *testing.T, l *limit, d time.Duration) {
	usual := l.get()
	l.set(d)
	t.Cleanup(func() { l.set(usual) })
}

// What one stream may ask for.
const (
	MostUnknown  = mostUnknown
	MostAsked    = mostAsked
	LongestAsked = longestAsked
)

// Waiting is how many names of a type are kept for streams.
func (c *Cache) Waiting(t resource.Type) (kept int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.streams {
		for _, w := range []*watch{st.asks[t], st.watches[t]} {
			if w == nil {
				continue
			}
			kept += max(len(w.sub.SubscribedResources()), len(w.sub.ReturnedResources()))
			break
		}
	}
	return kept
}
