package limit

import "sync"

// Shares bound how many there are of something, in all and of each asker: who has as many as are left for everybody gets no more. So one
// asker alone may have half of them, two a third each, and there is always some left for who comes next. It is safe for concurrent use.
type Shares struct {
	most int

	mu    sync.Mutex
	taken int
	of    map[string]int
}

// NewShares makes shares of so many.
func NewShares(most int) *Shares { return &Shares{most: most, of: map[string]int{}} }

// Take takes one for an asker; "" is nobody in particular, who may have all. ok is false where there is none for him: otherwise he has to
// Leave it.
func (s *Shares) Take(asker string) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.most - s.taken
	if left <= 0 || asker != "" && s.of[asker] >= left {
		return false
	}
	s.taken++
	if asker != "" {
		s.of[asker]++
	}
	return true
}

// Leave gives one back.
func (s *Shares) Leave(asker string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if asker == "" {
		return
	}
	if s.of[asker]--; s.of[asker] == 0 {
		delete(s.of, asker)
	}
}

// Taken is how many are taken.
func (s *Shares) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}
