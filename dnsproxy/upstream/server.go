package upstream

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// ErrDeclined is an answer like SERVFAIL or REFUSED: the server works, but does not help with this question.
var ErrDeclined = errors.New("the server declined")

// penalty is how long a server that did not answer is asked last.
const penalty = 10 * time.Second

// server is one upstream and its recent health.
type server struct {
	addr   netip.AddrPort
	failed atomic.Int64 // until then, Unix nanoseconds, it is asked last
}

// note remembers how an attempt ended. To decline a question is not to be ill.
func (s *server) note(err error, now time.Time) {
	switch {
	case err == nil || errors.Is(err, ErrDeclined):
		s.failed.Store(0)
	case errors.Is(err, context.Canceled):
	default:
		s.failed.Store(now.Add(penalty).UnixNano())
	}
}

// inOrder puts the servers that did not answer lately behind the others and keeps the order otherwise.
func inOrder(servers []*server, now time.Time) []*server {
	well := make([]*server, 0, len(servers))
	var ill []*server
	for _, s := range servers {
		if s.failed.Load() > now.UnixNano() {
			ill = append(ill, s)
		} else {
			well = append(well, s)
		}
	}
	return append(well, ill...)
}

// exchange asks by UDP, by TCP if the answer was cut off, and without EDNS if the server does not know that
// (RFC 6891 section 6.2.2).
func (s *server) exchange(ctx context.Context, q Question) (*dns.Msg, error) {
	msg, err := s.ask(ctx, request(q, true))
	if err != nil || q.DO {
		return msg, err
	}
	switch msg.Rcode {
	case dns.RcodeFormatError, dns.RcodeNotImplemented, dns.RcodeBadVers:
		return s.ask(ctx, request(q, false))
	default:
		return msg, nil
	}
}

func (s *server) ask(ctx context.Context, req *dns.Msg) (*dns.Msg, error) {
	msg, err := exchange(ctx, "udp", s.addr, req)
	if err == nil && msg.Truncated {
		return exchange(ctx, "tcp", s.addr, req)
	}
	return msg, err
}
