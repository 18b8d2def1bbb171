package dnsproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

const (
	// pipeline is how many questions of one connection may wait at a time (RFC 7766 section 6.2.1.1).
	pipeline = 16
	// crowdedIdle is what is left of the idle timeout while more than half of the connections are taken.
	crowdedIdle = time.Second
	// replaceable is how long a connection must have been without a question until a new one may take its place.
	replaceable = 100 * time.Millisecond
	// writeTimeout is how long a client may take to accept an answer.
	writeTimeout = 5 * time.Second
)

// serveTCP takes connections up to the bound.
func (l *listener) serveTCP(base context.Context) {
	s := l.view.s
	for {
		conn, err := l.tcp.Accept()
		held := &held{Conn: conn}
		switch {
		case err == nil && l.add(held, time.Now()):
			s.working.Go(func() { l.serveConn(base, held) })
		case err == nil:
			s.metrics.drops.WithLabelValues("connections").Inc()
			conn.Close()
		case l.stopping.Load() || errors.Is(err, net.ErrClosed):
			return
		default:
			s.config.Log.Warn("a connection could not be accepted", "view", l.view.Name, "address", l.addr, "error", err)
			time.Sleep(10 * time.Millisecond) // file descriptors may be short
		}
	}
}

// held is a connection that is open. since is when it became idle, in Unix nanoseconds; 0 while it has questions.
type held struct {
	net.Conn
	since atomic.Int64
}

// add makes room by closing the connection that has been idle for longest (RFC 7766 section 6.2.3), so that clients
// that ask nothing do not keep others out.
func (l *listener) add(conn *held, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.view.s.config.MaxConns {
		oldest := l.oldest()
		if oldest == nil || now.UnixNano()-oldest.since.Load() < int64(replaceable) {
			return false
		}
		l.view.s.metrics.drops.WithLabelValues("idle-connection").Inc()
		delete(l.conns, oldest)
		oldest.Close()
	}
	if l.stopping.Load() {
		return false
	}
	conn.since.Store(now.UnixNano())
	l.conns[conn] = struct{}{}
	return true
}

// oldest is the connection that has been idle for longest; nil: none is idle.
func (l *listener) oldest() *held {
	var oldest *held
	var began int64
	for conn := range l.conns {
		since := conn.since.Load() // 0 while it is asking
		if since != 0 && (oldest == nil || since < began) {
			oldest, began = conn, since
		}
	}
	return oldest
}

func (l *listener) remove(conn *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
	conn.Close()
}

// idle is how long a connection may take for its next whole question.
func (l *listener) idle() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) > l.view.s.config.MaxConns/2 {
		return min(crowdedIdle, l.view.s.config.IdleTimeout)
	}
	return l.view.s.config.IdleTimeout
}

// stream is one connection: answers are written whole, in the order in which they are ready.
type stream struct {
	*listener
	conn    *held
	writing sync.Mutex
	waiting chan struct{} // one for each question that waits
	working sync.WaitGroup
}

func (l *listener) serveConn(base context.Context, conn *held) {
	defer l.remove(conn)
	st := &stream{listener: l, conn: conn, waiting: make(chan struct{}, pipeline)}
	defer st.working.Wait()
	var size [2]byte
	var in, out []byte
	client := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	for {
		_ = conn.SetReadDeadline(time.Now().Add(l.idle()))
		if l.stopping.Load() { // after the deadline was set: stop may have set its own before
			return
		}
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		if n > maxQuery {
			return
		}
		if cap(in) < n {
			in = make([]byte, max(n, 512))
		}
		if _, err := io.ReadFull(conn, in[:n]); err != nil {
			return
		}
		conn.since.Store(0)
		c := call{client: client, tcp: true, start: time.Now()}
		var ok bool
		if out, ok = st.answer(base, &c, in[:n], out[:0]); !ok {
			return
		}
		st.rest()
	}
}

// answer writes the answer to msg, now or later. It returns the buffer, and false when the connection is of no use.
func (st *stream) answer(base context.Context, c *call, msg, out []byte) ([]byte, bool) {
	out = append(out, 0, 0) // for the length
	answer, ok := st.view.accept(c, msg, out)
	if ok && len(answer) == 0 {
		return out, false
	}
	if !ok {
		answer, ok = st.view.quick(c, out)
	}
	if ok {
		return answer, st.write(answer)
	}
	st.waiting <- struct{}{}
	if !st.view.s.slots.Take(st.view.share()) {
		<-st.waiting
		st.view.s.metrics.drops.WithLabelValues("in-flight").Inc()
		return out, st.write(st.view.failed(c, out, packet.EDENotReady, errBusy))
	}
	kept := c.clone(msg)
	st.working.Go(func() {
		defer func() { st.view.s.slots.Leave(st.view.share()); <-st.waiting; st.rest() }()
		st.write(st.view.slow(base, kept, make([]byte, 2, 514)))
	})
	return out, true
}

// rest marks the connection as idle if no question waits.
func (st *stream) rest() {
	if len(st.waiting) == 0 {
		st.conn.since.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// write sends an answer that has two bytes of room for its length in front.
func (st *stream) write(answer []byte) bool {
	binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
	st.writing.Lock()
	defer st.writing.Unlock()
	_ = st.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := st.conn.Write(answer); err != nil {
		st.conn.Close()
		return false
	}
	return true
}
