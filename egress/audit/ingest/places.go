package ingest

import (
	"container/list"
	"context"
	"sync"
)

// places are those of the batches that are unpacked and stored at a time, over all streams. Who has as many as are left for everybody waits until one of his is done, so that one alone
// has half of them, and there is some left for who comes next. Those who wait get them by turns.
type places struct {
	mu      sync.Mutex
	left    int
	of      map[string]*sharer
	waiting list.List // of *sharer, whose turn is next at the front
}

// sharer is who has places, or waits for one. "" is nobody in particular, who may have all.
type sharer struct {
	who   string
	taken int
	calls list.List     // of chan struct{}, each closed when it has a place
	turn  *list.Element // where any waits
}

func newPlaces(n int) *places { return &places{left: n, of: map[string]*sharer{}} }

// take waits for a place, which is to be given back by leave unless there is an error: ctx's.
func (p *places) take(ctx context.Context, who string) error {
	p.mu.Lock()
	s := p.of[who]
	if s == nil {
		s = &sharer{who: who}
		p.of[who] = s
	}
	if s.calls.Len() == 0 && p.may(s) {
		p.give(s)
		p.mu.Unlock()
		return nil
	}
	given := make(chan struct{})
	call := s.calls.PushBack(given)
	if s.turn == nil {
		s.turn = p.waiting.PushBack(s)
	}
	p.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-given: // meanwhile
		p.back(s)
	default:
		p.hangUp(s, call)
		p.forget(s)
	}
	return ctx.Err()
}

// leave gives a place back.
func (p *places) leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back(p.of[who])
}

func (p *places) may(s *sharer) bool { return p.left > 0 && (s.who == "" || s.taken < p.left) }

func (p *places) give(s *sharer) {
	s.taken++
	p.left--
}

// back takes a place back, and gives those that are left to those who may have them.
func (p *places) back(s *sharer) {
	s.taken--
	p.left++
	for p.next() {
	}
	p.forget(s)
}

// next gives a place to the first that may have one, who is behind all others then.
func (p *places) next() bool {
	for turn := p.waiting.Front(); turn != nil; turn = turn.Next() {
		s := turn.Value.(*sharer)
		if !p.may(s) {
			continue
		}
		call := s.calls.Front()
		close(call.Value.(chan struct{}))
		p.waiting.MoveToBack(turn)
		p.hangUp(s, call)
		p.give(s)
		return true
	}
	return false
}

// hangUp ends the waiting of a call.
func (p *places) hangUp(s *sharer, call *list.Element) {
	if s.calls.Remove(call); s.calls.Len() == 0 {
		p.waiting.Remove(s.turn)
		s.turn = nil
	}
}

// forget forgets who has none and waits for none.
func (p *places) forget(s *sharer) {
	if s.taken == 0 && s.calls.Len() == 0 {
		delete(p.of, s.who)
	}
}

// Share keeps callers apart, whom caller names by the stream's context: none of them may have more than half of the places that are left for batches.
// "" is nobody in particular. Call it before serving.
func (s *Server) Share(caller func(context.Context) string) { s.caller = caller }
