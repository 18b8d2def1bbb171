package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// maxPipes is how many connections there are to one server. Each takes many questions at a time.
const maxPipes = 4

var errClosed = errors.New("the server is not asked any more")

// pool is the connections to one server, by TCP or TLS. They stay open for the next question (RFC 7766 section 6.2).
type pool struct {
	server  Server
	tls     *tls.Config
	dialing chan struct{} // one at a time: the others then find a connection to share

	mu     sync.Mutex
	pipes  []*pipe
	closed bool
	work   sync.WaitGroup
}

func newPool(s Server, roots *x509.CertPool) *pool {
	o := &pool{server: s, dialing: make(chan struct{}, 1)}
	if s.Transport == TLS {
		o.tls = &tls.Config{
			ServerName: s.Name, RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(2),
		}
		if s.Name == "" {
			o.tls.ServerName = s.Addr.Addr().WithZone("").String()
		}
	}
	return o
}

// overStream asks by TCP or TLS. A connection that was idle may be closed by the server at the very moment: then the
// question is asked once more on a new one (RFC 7766 section 6.2.4).
func (p *peer) overStream(ctx context.Context, until time.Time, a *ask) (*dns.Msg, error) {
	if a.wire == nil {
		return nil, errName
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for {
		pipe, used, err := p.pool.get(ctx)
		if err != nil {
			return nil, asked(ctx, err)
		}
		msg, err := pipe.ask(ctx, a.wire)
		if err != nil && used && ctx.Err() == nil && errors.Is(err, errBroken) {
			continue
		}
		if err != nil {
			return nil, asked(ctx, err)
		}
		// The pipe has chosen the id, and seen that it is the same.
		msg[0], msg[1] = byte(a.id>>8), byte(a.id)
		return p.match(msg, a, true)
	}
}

// get finds a connection with room or makes one. used tells that it has carried questions before.
func (o *pool) get(ctx context.Context) (found *pipe, used bool, err error) {
	if found := o.find(); found != nil {
		return found, true, nil
	}
	select {
	case o.dialing <- struct{}{}:
		defer func() { <-o.dialing }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if found := o.find(); found != nil {
		return found, true, nil
	}
	o.mu.Lock()
	closed, full := o.closed, len(o.pipes) >= maxPipes
	o.mu.Unlock()
	switch {
	case closed:
		return nil, false, errClosed
	case full:
		return nil, false, fmt.Errorf("all %d connections have %d questions waiting", maxPipes, maxWaiting)
	}
	conn, err := o.dial(ctx)
	if err != nil {
		return nil, false, err
	}
	return o.add(conn)
}

func (o *pool) find() *pipe {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.pipes {
		if p.hasRoom() {
			return p
		}
	}
	return nil
}

func (o *pool) dial(ctx context.Context) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", o.server.Addr.String())
	if err != nil || o.tls == nil {
		return conn, err
	}
	secure := tls.Client(conn, o.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("TLS with %q: %w", o.tls.ServerName, err)
	}
	return secure, nil
}

func (o *pool) add(conn net.Conn) (*pipe, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		conn.Close()
		return nil, false, errClosed
	}
	made := newPipe(conn)
	o.pipes = append(o.pipes, made)
	o.work.Go(func() {
		made.read()
		o.remove(made)
	})
	return made, false, nil
}

func (o *pool) remove(gone *pipe) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pipes = slices.DeleteFunc(o.pipes, func(p *pipe) bool { return p == gone })
}

// close ends all connections.
func (o *pool) close() {
	o.mu.Lock()
	o.closed = true
	for _, p := range o.pipes {
		p.conn.Close()
	}
	o.mu.Unlock()
	o.work.Wait()
}
