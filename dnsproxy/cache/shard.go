package cache

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// segment is a least-recently-used list that knows its bytes.
type segment struct {
	lru   *simplelru.LRU[uint64, *Entry]
	bytes int
}

func (s *segment) init() {
	// The list is bounded by bytes, not by its length. NewLRU fails only for a length below 1.
	s.lru, _ = simplelru.NewLRU(math.MaxInt, func(_ uint64, e *Entry) { s.bytes -= e.size() })
}

func (s *segment) add(h uint64, e *Entry) {
	s.lru.Remove(h)
	s.lru.Add(h, e)
	s.bytes += e.size()
}

// shard is a segmented LRU: what was asked once is on trial and leaves first; what was asked again is protected,
// up to four fifths of the bytes.
type shard struct {
	mu        sync.Mutex
	trial     segment
	protected segment
	max       int
	evictions *atomic.Uint64
}

func (s *shard) init(maxBytes int, evictions *atomic.Uint64) {
	s.max, s.evictions = maxBytes, evictions
	s.trial.init()
	s.protected.init()
}

func (s *shard) get(h uint64, key []byte) *Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.protected.lru.Get(h); ok {
		if !e.matches(key) { // two keys with one hash: the later one has the place
			return nil
		}
		return e
	}
	e, ok := s.trial.lru.Peek(h)
	if !ok || !e.matches(key) {
		return nil
	}
	s.trial.lru.Remove(h)
	s.protected.add(h, e)
	for s.protected.bytes > s.max/5*4 {
		h, e, ok := s.protected.lru.RemoveOldest()
		if !ok {
			break
		}
		s.trial.add(h, e)
	}
	return e
}

func (s *shard) put(h uint64, e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.size() > s.max/4 {
		return
	}
	if s.protected.lru.Contains(h) {
		s.protected.add(h, e)
	} else {
		s.trial.add(h, e)
	}
	for s.trial.bytes+s.protected.bytes > s.max {
		if _, _, ok := s.trial.lru.RemoveOldest(); !ok {
			s.protected.lru.RemoveOldest()
		}
		s.evictions.Add(1)
	}
}

func (s *shard) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial.lru.Purge()
	s.protected.lru.Purge()
}

func (s *shard) count() (entries, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trial.lru.Len() + s.protected.lru.Len(), s.trial.bytes + s.protected.bytes
}
