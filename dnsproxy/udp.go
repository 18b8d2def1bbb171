package dnsproxy

import (
	"context"
	"runtime"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/datagram"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// maxQuery is the largest question that is read, in bytes.
const maxQuery = datagram.MaxQuestion

// serveUDP answers what came in the meantime from memory, all at once and without allocating; questions that wait for
// somebody get a goroutine each, as many as there are slots.
func (l *listener) serveUDP(base context.Context) {
	log := l.view.s.config.Log.With("view", l.view.Name, "address", l.addr)
	batch, err := datagram.NewBatch(l.udp, l.batch)
	if err != nil {
		log.Error("questions by UDP are not answered", "error", err)
		return
	}
	var c call
	for !l.stopping.Load() {
		n, err := batch.Read()
		if err != nil {
			if !l.stopping.Load() {
				log.Warn("datagrams could not be read", "error", err)
				time.Sleep(time.Millisecond) // it may be memory that is short
			}
			continue
		}
		start, answered := time.Now(), 0
		for i := range n {
			q := batch.Question(i)
			c = call{client: q.Client, start: start}
			if answer, ok := l.answer(base, &c, q, batch.Buffer(i)); ok {
				batch.Answer(i, answer)
				answered++
			}
		}
		if err := batch.Flush(); err != nil {
			log.Debug("an answer could not be sent", "error", err)
		}
		if answered < n {
			runtime.Gosched() // on one core, what waits for others gets its turn before the next batch
		}
	}
}

// answer appends the answer to out. ok is false where it comes later. An empty answer means none.
func (l *listener) answer(base context.Context, c *call, q datagram.Question, out []byte) (answer []byte, ok bool) {
	if answer, ok = l.view.accept(c, q.Message, out); ok {
		return answer, true
	}
	if answer, ok = l.view.quick(c, out); ok {
		return answer, true
	}
	return l.later(base, c, q, out)
}

// later lets a goroutine of its own answer c. Without a free slot it answers SERVFAIL at once.
func (l *listener) later(base context.Context, c *call, q datagram.Question, out []byte) ([]byte, bool) {
	v := l.view
	if !v.s.slots.Take(v.share()) {
		v.s.metrics.drops.WithLabelValues("in-flight").Inc()
		return v.failed(c, out, packet.EDENotReady, errBusy), true
	}
	kept, control := c.clone(q.Message), append([]byte(nil), q.Control...)
	v.s.working.Go(func() {
		defer v.s.slots.Leave(v.share())
		if err := l.udp.Reply(v.slow(base, kept, nil), control, kept.client); err != nil {
			v.s.config.Log.Debug("an answer could not be sent", "view", v.Name, "client", kept.client, "error", err)
		}
	})
	return nil, false
}
