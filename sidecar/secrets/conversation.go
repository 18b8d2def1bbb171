package secrets

import (
	"errors"
	"io"
	"sync"
	"time"
)

// conversation is one stream of Envoy's, of which an agent that serves a node's pods has one for each: it has one goroutine, which waits for requests. What there is to be
// said is said by another one, which is there as long as that takes.
type conversation[R any] struct {
	workload *Workload
	response func(all map[string]secret) *R // what to say now; nil for nothing
	send     func(*R) error

	mutex  sync.Mutex // of the subscription, too
	saying bool
	failed error // no more is said then
	work   sync.WaitGroup
}

// converse runs one stream: each request goes to heard, and after each request and each change of the material, it is said what response makes of the secrets there are. It returns when the
// client is gone.
func converse[Q, R any](w *Workload, recv func() (*Q, error), heard func(*Q) error, response func(map[string]secret) *R, send func(*R) error) error {
	c := &conversation[R]{workload: w, response: response, send: send}
	unfollow := w.board.follow(c.tell)
	defer func() { unfollow(); c.work.Wait() }()
	for {
		q, err := recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.hear(func() error { return heard(q) }); err != nil {
			return err
		}
		c.tell()
	}
}

// hear takes a request.
func (c *conversation[R]) hear(heard func() error) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return heard()
}

// tell has said what is new; while something is being said, who says it looks again. It does not wait for the client.
func (c *conversation[R]) tell() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.saying {
		return
	}
	if r := c.next(); r != nil {
		c.saying = true
		c.work.Go(func() { c.say(r) })
	}
}

// say sends until there is nothing more to say.
func (c *conversation[R]) say(r *R) {
	for r != nil {
		c.workload.metrics.pushes.Inc()
		err := c.send(r)
		c.mutex.Lock()
		c.failed = err
		r = c.next()
		c.saying = r != nil
		c.mutex.Unlock()
	}
}

// next is what is to be said. The lock is held.
func (c *conversation[R]) next() *R {
	if c.failed != nil { // the client is gone, which who waits for its requests is told
		return nil
	}
	m := c.workload.board.read()
	all, err := c.workload.board.secrets(m, time.Now())
	if err != nil {
		c.workload.options.Log.Error("secrets cannot be handed out", "error", err)
		return nil
	}
	return c.response(all)
}
