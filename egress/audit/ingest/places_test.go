package ingest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sallyport/sallyport/egress/audit/record"
)

type caller struct{}

// slow is a Sink that is done when it is told to.
type slow struct {
	mu    sync.Mutex
	calls map[string]int
	done  chan struct{}
}

func (s *slow) Store(_ context.Context, records []record.Record) error {
	s.mu.Lock()
	s.calls[records[0].Host]++
	s.mu.Unlock()
	<-s.done
	return nil
}

// TestPlacesAreShared: whoever hands in many batches at a time leaves places for others', and all are stored in the end.
func TestPlacesAreShared(t *testing.T) {
	packed := map[string][]byte{}
	for _, who := range []string{"a", "b", "c"} {
		r := rec(1)
		r.Host = who
		packed[who], _ = EncodeBatch([]record.Record{r})
		if _, err := DecodeBatch(packed[who]); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		sink := &slow{calls: map[string]int{}, done: make(chan struct{})}
		s := NewServer(sink, nil, nil)
		s.Share(func(ctx context.Context) string { who, _ := ctx.Value(caller{}).(string); return who })
		var all sync.WaitGroup
		hand := func(who string, n int) {
			t.Helper()
			ctx := context.WithValue(t.Context(), caller{}, who)
			for range n {
				all.Go(func() {
					if _, err := s.take(ctx, packed[who]); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
		}
		want := func(a, b, c int) {
			t.Helper()
			sink.mu.Lock()
			defer sink.mu.Unlock()
			if sink.calls["a"] != a || sink.calls["b"] != b || sink.calls["c"] != c {
				t.Errorf("under way: %v, want %d, %d, %d", sink.calls, a, b, c)
			}
		}
		hand("a", 200)
		want(inFlight/2, 0, 0)
		hand("b", 200)
		want(inFlight/2, inFlight/4, 0)
		hand("c", 1)
		want(inFlight/2, inFlight/4, 1)
		close(sink.done)
		all.Wait()
		want(200, 200, 1)
		if s.places.left != inFlight || len(s.places.of) != 0 || s.places.waiting.Len() != 0 {
			t.Errorf("left %d of %d places, %d hold or wait", s.places.left, inFlight, len(s.places.of))
		}
	})
}

// TestPlacesOfNobody: whoever is not told apart may have all of them, and who does not wait any longer leaves no trace.
func TestPlacesOfNobody(t *testing.T) {
	p := newPlaces(3)
	for range 3 {
		if err := p.take(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	for _, who := range []string{"a", "", "a"} {
		if err := p.take(ctx, who); err == nil {
			t.Errorf("%q has a fourth of three", who)
		}
	}
	for range 3 {
		p.leave("")
	}
	if p.left != 3 || len(p.of) != 0 || p.waiting.Len() != 0 {
		t.Errorf("%d left, %d hold or wait", p.left, len(p.of))
	}
}

// TestPlacesByTurns: who waits with one call does not wait for another one's many.
func TestPlacesByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1)
		if err := p.take(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		got := make(chan string, 10)
		for _, who := range []string{"a", "a", "a", "b"} {
			go func() {
				if p.take(t.Context(), who) == nil {
					got <- who
				}
			}()
			synctest.Wait()
		}
		order, last := "", "x"
		for range 4 {
			p.leave(last)
			last = <-got
			order += last
		}
		if p.leave(last); order != "abaa" {
			t.Errorf("the order is %s", order)
		}
	})
}
