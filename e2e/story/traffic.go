package story

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// stream is one connection of the application that stays open, with data on it all the time.
type stream struct {
	url   string
	lines atomic.Int64
	alive context.Context // ends with the connection
	stop  context.CancelFunc
}

// openStream opens it and waits for the first data.
func (s *Scene) openStream(ctx context.Context, scheme, host string) (*stream, error) {
	url := s.url(scheme, host, outside.StreamPath+token())
	ctx, stop := context.WithCancel(ctx)
	alive, ended := context.WithCancel(context.Background())
	st := &stream{url: url, stop: stop, alive: alive}
	cmd := s.client(ctx, append(s.curlArgs(), "-N", url)...)
	out, in := io.Pipe()
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = in, &stderr
	go func() {
		defer ended()
		_ = in.CloseWithError(errors.Join(world.Await(cmd), io.EOF))
	}()
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "line ") {
				st.lines.Add(1)
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	if err := st.flows(ctx); err != nil {
		st.close()
		return nil, fmt.Errorf("opening: %w %s", err, stderr.String())
	}
	return st, nil
}

// flows waits until some more lines have come on the same connection.
func (st *stream) flows(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(st.alive, func() { cancel(errors.New("the connection had broken")) })
	defer stop()
	seen := st.lines.Load()
	return world.Within(ctx, time.Minute, func() error {
		if st.lines.Load() < seen+3 {
			return fmt.Errorf("on the open connection to %s no data comes after line %d", st.url, st.lines.Load())
		}
		return nil
	})
}

func (st *stream) close() {
	st.stop()
	<-st.alive.Done()
}

// probe is the application making one request after the other, each on a new connection.
type probe struct {
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	sent     int
	failures []string
}

// startProbe asks the host by HTTP and HTTPS in turn until finish.
func (s *Scene) startProbe(ctx context.Context, host string) *probe {
	ctx, stop := context.WithCancel(ctx)
	p := &probe{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for i := 0; ctx.Err() == nil; i++ {
			reply, err := s.get(ctx, s.url([]string{"http", "https"}[i%2], host, "/probe"))
			if ctx.Err() != nil {
				return
			}
			p.note(reply, err)
		}
	}()
	return p
}

func (p *probe) note(reply Reply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	if err == nil {
		err = reply.must()
	}
	if err != nil {
		p.failures = append(p.failures, err.Error())
	}
}

// requests is how many were made so far.
func (p *probe) requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// more waits until some more requests were made, and gives how long that took.
func (p *probe) more(ctx context.Context, n int) (took time.Duration, err error) {
	began, before := time.Now(), p.requests()
	err = world.Within(ctx, 2*time.Minute, func() error {
		if made := p.requests() - before; made < n {
			return fmt.Errorf("%d requests in %s", made, time.Since(began))
		}
		return nil
	})
	return time.Since(began), err
}

// finish ends the probe; a single failed request is an error.
func (p *probe) finish() (requests int, err error) {
	p.stop()
	<-p.done
	if len(p.failures) > 0 {
		err = fmt.Errorf("%d of %d requests failed while that happened, the first: %s", len(p.failures), p.sent, p.failures[0])
	}
	return p.sent, err
}
