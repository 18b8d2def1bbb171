package store

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Following gets the records that come in, after they are durable.
type Following struct {
	// C carries them in the order of their arrival; it is closed with the store. Don't change them: they are shared.
	C      <-chan []record.Record
	c      chan []record.Record
	missed atomic.Uint64
	leave  func()
}

// Missed returns how many records were left out since the last call, because C was full.
func (f *Following) Missed() uint64 { return f.missed.Swap(0) }

// Close ends the following.
func (f *Following) Close() { f.leave() }

type followers struct {
	mu     sync.Mutex
	all    []*Following
	closed bool
}

// Follow subscribes to new records; up to buffer batches wait for a slow reader.
func (s *Store) Follow(buffer int) *Following {
	c := make(chan []record.Record, buffer)
	f := &Following{C: c, c: c}
	f.leave = func() { s.followers.remove(f) }
	s.followers.mu.Lock()
	defer s.followers.mu.Unlock()
	if s.followers.closed {
		close(c)
		return f
	}
	s.followers.all = append(s.followers.all, f)
	return f
}

func (f *followers) remove(x *Following) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = slices.DeleteFunc(f.all, func(y *Following) bool { return x == y })
}

// publish never waits. The records are copied for those who follow: whoever stored them may use theirs again.
func (f *followers) publish(records []record.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.all) > 0 {
		records = slices.Clone(records)
	}
	for _, x := range f.all {
		select {
		case x.c <- records:
		default:
			x.missed.Add(uint64(len(records)))
		}
	}
}

func (f *followers) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.all {
		close(x.c)
	}
	f.all, f.closed = nil, true
}
