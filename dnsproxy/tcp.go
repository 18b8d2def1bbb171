package dnsproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

const (
	// pipeline is how many questions of one connection may wait at a time (RFC 7766 section 6.2.1.1).
	pipeline = 16
	// crowdedIdle is what is left of the idle timeout while more than half of the connections are taken.
	crowdedIdle = time.Second
	// writeTimeout is how long a client may take to accept an answer.
	writeTimeout = 5 * time.Second
)

// serveTCP takes connections up to the bound.
func (l *listener) serveTCP(base context.Context) {
	s := l.view.s
	for {
		conn, err := l.tcp.Accept()
		switch {
		case err == nil && l.add(conn):
			s.working.Go(func() { l.serveConn(base, conn) })
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

func (l *listener) add(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.conns) >= l.view.s.config.MaxConns || l.stopping.Load() {
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *listener) remove(conn net.Conn) {
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
	conn    net.Conn
	writing sync.Mutex
	waiting chan struct{} // one for each question that waits
	working sync.WaitGroup
}

func (l *listener) serveConn(base context.Context, conn net.Conn) {
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
		c := call{client: client, tcp: true, start: time.Now()}
		var ok bool
		if out, ok = st.answer(base, &c, in[:n], out[:0]); !ok {
			return
		}
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
	if !st.view.s.acquire() {
		<-st.waiting
		st.view.s.metrics.drops.WithLabelValues("in-flight").Inc()
		return out, st.write(st.view.failed(c, out, packet.EDENotReady, errBusy))
	}
	kept := c.clone(msg)
	st.working.Go(func() {
		defer func() { st.view.s.release(); <-st.waiting }()
		st.write(st.view.slow(base, kept, make([]byte, 2, 514)))
	})
	return out, true
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
