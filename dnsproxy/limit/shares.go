package limit

import "sync"

// Shares bound how many there are of something, in all and of each asker: who has as many as are left for everybody gets no more. So one
// asker alone may have half of them, two a third each, and there is always some left for who comes next. It is safe for concurrent use.
type Shares struct {
	most int

	mu    sync.Mutex
	taken int
	of    map[Share]int
}

// Share is whose one is. Of is an asker; "" is nobody in particular, who may have all. Part is of what among his it is, where those share what he
// may have as askers do: a part may have as many as are left beside what he has already; "" is nothing in particular.
type Share struct{ Of, Part string }

// NewShares makes shares of so many.
func NewShares(most int) *Shares { return &Shares{most: most, of: map[Share]int{}} }

// Take takes one. ok is false where there is none for him: otherwise he has to Leave it.
func (s *Shares) Take(share Share) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.most - s.taken
	if share.Of != "" {
		left -= s.of[Share{Of: share.Of}]
	}
	if left <= 0 || share.Part != "" && s.of[share] >= left {
		return false
	}
	s.count(share, 1)
	return true
}

// Leave gives one back.
func (s *Shares) Leave(share Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(share, -1)
}

// count adds to what is taken. The lock is held.
func (s *Shares) count(share Share, more int) {
	s.taken += more
	if share.Of != "" {
		s.add(Share{Of: share.Of}, more)
	}
	if share.Part != "" {
		s.add(share, more)
	}
}

func (s *Shares) add(share Share, more int) {
	if s.of[share] += more; s.of[share] == 0 {
		delete(s.of, share)
	}
}

// Taken is how many are taken.
func (s *Shares) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
