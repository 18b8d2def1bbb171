package verify

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a connection that counts what it hears, and knows who took it.
type conn struct {
	net.Conn
	reader *bufio.Reader
	heard  atomic.Int64
	taken  Taken
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.heard.Add(int64(n))
	return n, err
}

// dial connects to ADDRESS:PORT, by the forward proxy if there is one. The connection has a deadline.
func (e *Env) dial(ctx context.Context, addr string) (*conn, error) {
	if e.Proxy != nil {
		return e.dialByProxy(ctx, addr)
	}
	for try := 1; ; try++ {
		c, err := e.connect(ctx, addr)
		if err != nil {
			return nil, err
		}
		c.taken, err = e.taken(addrPort(c.LocalAddr()), addrPort(c.RemoteAddr()))
		if err == nil && (c.taken != "" || try == tries) {
			return c, nil
		}
		_ = c.Close()
		if err != nil && (try == tries || !errors.Is(err, errOver)) {
			return nil, &unknownError{fmt.Errorf("who took the connection cannot be told: %w", err)}
		}
	}
}

// tries is how often something is connected to until it is seen who took the connection. One that nobody took is nobody's each time; one
// that is over at once, or whose port NAT changed, mostly is not.
const tries = 3

func (e *Env) connect(ctx context.Context, addr string) (*conn, error) {
	plain, err := (&net.Dialer{Timeout: e.Wait}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := plain.SetDeadline(time.Now().Add(e.Wait)); err != nil {
		_ = plain.Close()
		return nil, err
	}
	return &conn{Conn: plain, reader: bufio.NewReader(plain)}, nil
}

// dialByProxy asks the forward proxy for a tunnel (CONNECT, RFC 9110, 9.3.6).
func (e *Env) dialByProxy(ctx context.Context, addr string) (*conn, error) {
	c, err := e.connect(ctx, e.Proxy.Host)
	if err != nil {
		return nil, &unknownError{fmt.Errorf("the proxy %s does not answer: %w", e.Proxy.Host, err)}
	}
	ask := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{"User-Agent": {userAgent}}}
	if err := ask.Write(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	resp, err := http.ReadResponse(c.reader, ask)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		a := answerOf(resp)
		_ = c.Close()
		return nil, &refusedError{a}
	}
	c.taken = ByProxy
	return c, nil
}

// unknownError is for an attempt that says nothing about the way.
type unknownError struct{ error }

func (e *unknownError) Unwrap() error { return e.error }

// refusedError is a proxy's answer in place of a tunnel.
type refusedError struct{ answer }

func (e *refusedError) Error() string { return e.String() }

// judgeDial judges an attempt that did not get as far as a connection.
func (r Result) judgeDial(err error, wait time.Duration) Result {
	var unknown *unknownError
	var refused *refusedError
	switch {
	case errors.As(err, &unknown):
		return r.conclude(Unclear, "%v", err)
	case errors.As(err, &refused):
		r.Taken = ByProxy
		return r.judgeRefusal(refused.answer)
	case errors.Is(err, syscall.ECONNREFUSED):
		return r.conclude(Closed, "refused at once, by the target or by what is before it; the pod's proxy did not take it")
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		return r.conclude(Closed, "no route: %s", cause(err))
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		r.Taken = ByRules
		return r.conclude(Closed, "dropped by rules in the pod itself: %s", cause(err))
	case timedOut(err):
		return r.conclude(Closed, "no answer within %s: dropped on the way, or nobody is there; the pod's proxy did not take it", wait)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF):
		return r.conclude(Closed, "ended before there was a connection: %s", cause(err))
	}
	return r.conclude(Unclear, "%v", err)
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// cause is the kernel's word for an error, without who called what.
func cause(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	text := err.Error()
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}

func addrPort(a net.Addr) netip.AddrPort {
	p, _ := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
