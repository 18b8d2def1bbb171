package dnsproxy

import (
	"context"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// maxQuery is the largest question that is read, in bytes. Real ones are below 300.
const maxQuery = 4096

// serveUDP answers from memory by itself, one datagram after the other without allocating; questions that wait for
// somebody get a goroutine each, as many as there are slots.
func (l *listener) serveUDP(base context.Context) {
	var c call
	in, out := make([]byte, maxQuery), make([]byte, 0, maxQuery)
	var oob []byte
	if l.wildcard {
		oob = make([]byte, oobSize)
	}
	for !l.stopping.Load() {
		n, oobn, _, client, err := l.udp.ReadMsgUDPAddrPort(in, oob)
		if err != nil {
			if !l.stopping.Load() {
				l.view.s.config.Log.Warn("a datagram could not be read", "view", l.view.Name, "address", l.addr, "error", err)
				time.Sleep(time.Millisecond) // it may be memory that is short
			}
			continue
		}
		if l.wildcard {
			freeInterface(oob[:oobn], l.v4)
		}
		c = call{client: client, start: time.Now()}
		answer, ok := l.view.accept(&c, in[:n], out[:0])
		if !ok {
			answer, ok = l.view.quick(&c, out[:0])
		}
		if !ok {
			answer, ok = l.later(base, &c, in[:n], oob[:oobn], out)
		}
		if ok && len(answer) > 0 {
			l.reply(answer, oob[:oobn], client)
		}
		if cap(answer) > cap(out) {
			out = answer[:0]
		}
	}
}

// later lets a goroutine of its own answer c. Without a free slot it answers SERVFAIL at once.
func (l *listener) later(base context.Context, c *call, msg, oob, out []byte) ([]byte, bool) {
	v := l.view
	if !v.s.acquire() {
		v.s.metrics.drops.WithLabelValues("in-flight").Inc()
		return v.failed(c, out[:0], packet.EDENotReady, errBusy), true
	}
	kept, from := c.clone(msg), append([]byte(nil), oob...)
	v.s.working.Go(func() {
		defer v.s.release()
		l.reply(v.slow(base, kept, nil), from, kept.client)
	})
	return nil, false
}

// reply sends an answer from the address that the question came to.
func (l *listener) reply(answer, oob []byte, client netip.AddrPort) {
	if _, _, err := l.udp.WriteMsgUDPAddrPort(answer, oob, client); err != nil {
		l.view.s.config.Log.Debug("an answer could not be sent", "view", l.view.Name, "client", client, "error", err)
	}
}

func (s *Server) acquire() bool {
	select {
	case s.slots <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Server) release() { <-s.slots }
