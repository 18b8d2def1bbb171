package serve_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/serve"
)

// TestSettle: what making views took is given back once, a second after the last of them, and not more often than it is worth.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := mesh.Default()
		cache := serve.NewCache(registry.New(&cfg).Snapshot())
		var given atomic.Int32
		cache.GiveBackBy(func() { given.Add(1) })
		after := func(d time.Duration, want int32) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := given.Load(); got != want {
				t.Errorf("memory was given back %d times, not %d", got, want)
			}
		}
		for range 3 {
			cache.ViewMade()
			after(900*time.Millisecond, 0)
		}
		after(200*time.Millisecond, 1)
		cache.ViewMade()
		after(50*time.Second, 1)
		after(10*time.Second, 2)
		after(time.Hour, 2)
	})
}
