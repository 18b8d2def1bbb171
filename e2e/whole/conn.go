package whole

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
)

// plain is a TCP connection.
type plain struct {
	*net.TCPConn
	in io.Reader
}

// Plain is a TCP connection; in is what is read of it, for one of which some was read already, or nil.
func Plain(c net.Conn, in *bufio.Reader) Conn {
	p := plain{TCPConn: c.(*net.TCPConn), in: c}
	if in != nil {
		p.in = in
	}
	return p
}

// Read reads.
func (p plain) Read(b []byte) (int, error) { return p.in.Read(b) }

// Reset ends the connection with a reset.
func (p plain) Reset() error {
	if err := p.SetLinger(0); err != nil {
		return err
	}
	return p.TCPConn.Close()
}

// secure is TLS on a TCP connection.
type secure struct {
	*tls.Conn
	under Conn
}

// Secure is a TLS connection over another.
func Secure(c *tls.Conn, under Conn) Conn { return secure{c, under} }

// Reset ends the TCP connection with a reset.
func (s secure) Reset() error { return reset(s.under) }

// Counter is a TCP connection that counts what crosses it, in bytes.
type Counter struct {
	net.Conn
	Sent, Received atomic.Int64
}

// Read reads.
func (c *Counter) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.Received.Add(int64(n))
	return n, err
}

// Write writes.
func (c *Counter) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.Sent.Add(int64(n))
	return n, err
}

// CloseWrite shuts this side.
func (c *Counter) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// Reset ends the connection with a reset.
func (c *Counter) Reset() error { return plain{TCPConn: c.Conn.(*net.TCPConn)}.Reset() }
