package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// buffers for datagrams: larger than we ask for, because servers do not always listen.
var buffers = sync.Pool{New: func() any { return new([4096]byte) }}

// datagram sends a from a new socket, and so from an unpredictable port, that takes datagrams from the server only.
func (p *peer) datagram(ctx context.Context, until time.Time, a *ask) (*dns.Msg, error) {
	if a.wire == nil {
		return nil, errName
	}
	conn, err := net.DialUDP("udp", nil, p.udp)
	if err != nil {
		return nil, asked(ctx, err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(until)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	msg, err := p.await(conn, a)
	return msg, asked(ctx, err)
}

// await waits for the datagram that answers a. What does not match is not an answer, whoever sent it: it is passed
// over, so that a forger's miss does not end the wait for the real one.
func (p *peer) await(conn *net.UDPConn, a *ask) (*dns.Msg, error) {
	if _, err := conn.Write(a.wire); err != nil {
		return nil, err
	}
	buf := buffers.Get().(*[4096]byte)
	defer buffers.Put(buf)
	var doubt error
	for {
		n, err := conn.Read(buf[:])
		if err != nil {
			if doubt != nil {
				return nil, doubt
			}
			return nil, err
		}
		msg, err := p.match(buf[:n], a, false)
		if err == nil {
			return msg, nil
		}
		if errors.Is(err, ErrUnproven) && doubt == nil {
			doubt = err
			_ = conn.SetReadDeadline(time.Now().Add(p.pace.unproven))
		}
	}
}

// asked names the reason of an error that the end of ctx has caused. The socket's deadline is ctx's, and may be first.
func asked(ctx context.Context, err error) error {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return context.Canceled
	default:
		return fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)
	}
}
