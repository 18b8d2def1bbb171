package incluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// traffic is an app's requests to a host, all the time, while something happens.
type traffic struct {
	stop     context.CancelFunc
	done     sync.WaitGroup
	requests atomic.Int64
	mu       sync.Mutex
	failures []string
}

// pause is the time between two requests of one client.
const pause = 20 * time.Millisecond

// begin lets several clients in the app make requests, each over a connection of its own: plain HTTP and TLS, to a host that
// is registered and to one that is not, which must stay closed.
func (s *stage) begin(app string) *traffic {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	tr := &traffic{stop: stop}
	for _, client := range []func(context.Context) error{
		func(ctx context.Context) error { return reaches(ctx, app, "http://"+external+"/traffic") },
		func(ctx context.Context) error { return reaches(ctx, app, "http://"+external+"/traffic") },
		func(ctx context.Context) error { return reaches(ctx, app, "https://"+external+"/traffic") },
		func(ctx context.Context) error { return reaches(ctx, app, "https://"+external+"/traffic") },
		func(ctx context.Context) error { return blocked(ctx, app, "http://"+nobody+"/traffic") },
	} {
		tr.done.Go(func() { tr.loop(ctx, client) })
	}
	s.Cleanup(stop)
	return tr
}

func (tr *traffic) loop(ctx context.Context, client func(context.Context) error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		began := time.Now()
		err := client(ctx)
		if ctx.Err() != nil {
			return
		}
		tr.requests.Add(1)
		if err != nil {
			tr.mu.Lock()
			tr.failures = append(tr.failures, fmt.Sprintf("%s (%s): %v", began.Format("15:04:05.000"), since(began), err))
			tr.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// end stops the traffic. Nothing of it may have failed.
func (s *stage) end(tr *traffic) {
	s.Helper()
	tr.stop()
	tr.done.Wait()
	s.Logf("%d requests, %d failed", tr.requests.Load(), len(tr.failures))
	if tr.requests.Load() < 50 {
		s.Errorf("only %d requests were made: that shows nothing", tr.requests.Load())
	}
	for i, f := range tr.failures {
		if i == 10 {
			s.Errorf("… and %d more", len(tr.failures)-i)
			return
		}
		s.Error(f)
	}
}
