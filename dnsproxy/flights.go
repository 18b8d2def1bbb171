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
	own, started, err := f.start(key)
	if started {
		f.wg.Go(func() { f.land(key, own, fetch) })
	}
	return own, err
}

// lead is join for a caller that waits anyway: a flight of its own has landed when it returns. A goroutine less is a
// stack less that grows.
func (f *flights) lead(key []byte, fetch func() (*cache.Entry, error)) (*flight, error) {
	own, started, err := f.start(key)
	if started {
		f.land(key, own, fetch)
	}
	return own, err
}

// start returns the flight for key. started is that the caller has to see to it that it lands.
func (f *flights) start(key []byte) (own *flight, started bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running, ok := f.running[string(key)]; ok {
		return running, false, nil
	}
	if len(f.running) >= f.max {
		return nil, false, errBusy
	}
	own = &flight{done: make(chan struct{})}
	f.running[string(key)] = own
	return own, true, nil
}

func (f *flights) land(key []byte, own *flight, fetch func() (*cache.Entry, error)) {
	own.entry, own.err = fetch()
	f.mu.Lock()
	delete(f.running, string(key))
	f.mu.Unlock()
	close(own.done)
}
