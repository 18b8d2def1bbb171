package dnsproxy

import (
	"sync"

	"github.com/sallyport/sallyport/dnsproxy/cache"
	"github.com/sallyport/sallyport/dnsproxy/limit"
)

// flights makes one upstream question of many askers'. Unlike x/sync/singleflight it is bounded, in all, for each asker
// that is known and for the names of each domain, and it can be waited for when the server stops. Whoever joins may leave early; the flight goes on.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
	room    *limit.Shares
	wg      sync.WaitGroup
}

// fetch is how an answer is asked for and kept: under which key, and whose place it takes meanwhile.
type fetch struct {
	key   []byte
	share limit.Share
	do    func() (*cache.Entry, error)
}

// flight is one question upstream. entry and err may be read when done is closed.
type flight struct {
	done  chan struct{}
	entry *cache.Entry
	err   error
}

// join returns the flight of a fetch and starts it if there is none.
func (f *flights) join(of fetch) (*flight, error) {
	own, started, err := f.start(of)
	if started {
		f.wg.Go(func() { f.land(of, own) })
	}
	return own, err
}

// lead is join for a caller that waits anyway: a flight of its own has landed when it returns. A goroutine less is a
// stack less that grows.
func (f *flights) lead(of fetch) (*flight, error) {
	own, started, err := f.start(of)
	if started {
		f.land(of, own)
	}
	return own, err
}

// start returns the flight of a fetch. started is that the caller has to see to it that it lands.
func (f *flights) start(of fetch) (own *flight, started bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if running, ok := f.running[string(of.key)]; ok {
		return running, false, nil
	}
	if !f.room.Take(of.share) {
		return nil, false, errBusy
	}
	own = &flight{done: make(chan struct{})}
	f.running[string(of.key)] = own
	return own, true, nil
}

func (f *flights) land(of fetch, own *flight) {
	own.entry, own.err = of.do()
	f.mu.Lock()
	delete(f.running, string(of.key))
	f.room.Leave(of.share)
	f.mu.Unlock()
	close(own.done)
}
