package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // what client-go takes
)

// maxRefusal is how much of a refusal is read, in bytes; refusalWait is how long it may take after the end of the data.
const (
	maxRefusal  = 4 << 10
	refusalWait = 2 * time.Second
)

// conn is one connection through a tunnel. A pipe stands between the stream and the user, since a stream has no
// deadlines and its Read cannot be ended.
type conn struct {
	net.Conn
	address address
	end     func()
	refused chan struct{} // closed when no refusal can come any more
	refusal error         // what the other end said, once refused is closed
}

type address string

func (address) Network() string  { return "pod" }
func (a address) String() string { return string(a) }

func newConn(t *Tunnel, port uint16, data, refusal httpstream.Stream) *conn {
	near, far := net.Pipe()
	c := &conn{Conn: near, address: address(fmt.Sprintf("%s:%d", t.pod, port)), refused: make(chan struct{})}
	c.end = sync.OnceFunc(func() {
		_ = data.Reset() // what nobody reads must not hold up the refusal
		select {
		case <-c.refused:
		case <-time.After(refusalWait):
			_ = refusal.Reset()
		}
		t.conn.RemoveStreams(data, refusal)
	})
	go func() {
		defer close(c.refused)
		if said, _ := io.ReadAll(io.LimitReader(refusal, maxRefusal)); len(said) > 0 {
			c.refusal = fmt.Errorf("pod %s: %s", c.address, strings.TrimSpace(string(said)))
			_ = far.Close()
		}
	}()
	go func() {
		_, _ = io.Copy(far, data)
		_ = far.Close()
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Close()
	}()
	return c
}

// Read gives the other end's reason where the connection could not be made.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) {
		c.end()
		<-c.refused
		if c.refusal != nil {
			err = c.refusal
		}
	}
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	go c.end()
	return err
}

func (c *conn) LocalAddr() net.Addr  { return address("tunnel") }
func (c *conn) RemoteAddr() net.Addr { return c.address }
