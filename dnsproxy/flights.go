package dnsproxy

import (
	"sync"

	"github.com/sallyport/sallyport/dnsproxy/cache"
)

// flights makes one upstream question of many askers'. Unlike x/sync/singleflight it is bounded, and it can be
// waited for when the server stops. Whoever joins may leave early; the flight goes on.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
	max     int
	wg      sync.WaitGroup
}

// flight is one question upstream. entry and err may be read when done is closed.
type flight struct {
	done  chan struct{}
	entry *cache.Entry
	err   error
}

// join returns the flight for key and starts it if there is none.
func (f *flights) join(key []byte, fetch func() (*cache.Entry, error)) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running, ok := f.running[string(key)]; ok {
		return running, nil
	}
	if len(f.running) >= f.max {
		return nil, errBusy
	}
	own, started := string(key), &flight{done: make(chan struct{})}
	f.running[own] = started
	f.wg.Go(func() {
		started.entry, started.err = fetch()
		f.mu.Lock()
		delete(f.running, own)
		f.mu.Unlock()
		close(started.done)
	})
	return started, nil
}
