package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// peer is one server, and what it was found to be like.
type peer struct {
	Server
	pool  *pool
	udp   *net.UDPAddr
	coins coins
	pace  *pace

	mu sync.Mutex
	health
	traits
}

func newPeer(s Server, roots *x509.CertPool, p *pace) *peer {
	return &peer{pace: p, Server: s, pool: newPool(s, roots), udp: net.UDPAddrFromAddrPort(s.Addr), coins: randomCoins, traits: newTraits()}
}

// ErrUnproven is an answer that is right but for what a forger could not know: the case of the name or our cookie.
var ErrUnproven = errors.New("the answer lacks proof")

// exchange asks once, and waits until then at most: by UDP, by TCP if the answer was cut off or is not proven, and without EDNS if the server does
// not know that (RFC 6891 section 6.2.2).
func (p *peer) exchange(ctx context.Context, until time.Time, q Question) (*dns.Msg, error) {
	if p.Transport != UDP {
		return p.overStream(ctx, until, p.compose(q, plain))
	}
	msg, err := p.overUDP(ctx, until, q)
	if err == nil && msg.Rcode == dns.RcodeBadCookie {
		if msg, err = p.overUDP(ctx, until, q); err == nil && msg.Rcode == dns.RcodeBadCookie {
			return p.overStream(ctx, until, p.compose(q, plain)) // RFC 7873 section 5.3
		}
	}
	switch {
	case errors.Is(err, ErrUnproven):
		return p.prove(ctx, until, q, err)
	case err != nil:
		return nil, err
	case msg.Truncated:
		return p.overStream(ctx, until, p.compose(q, plain))
	case knowsNoEDNS(msg.Rcode) && !q.DO && p.dealsWith(edns) != 0:
		return p.plainer(ctx, until, q, msg)
	default:
		return msg, nil
	}
}

func knowsNoEDNS(rcode int) bool {
	return rcode == dns.RcodeFormatError || rcode == dns.RcodeNotImplemented || rcode == dns.RcodeBadVers
}

// plainer asks without EDNS, and remembers if that helps.
func (p *peer) plainer(ctx context.Context, until time.Time, q Question, refused *dns.Msg) (*dns.Msg, error) {
	msg, err := p.datagram(ctx, until, p.compose(q, p.dealsWith(mixed)))
	if errors.Is(err, ErrUnproven) {
		return p.prove(ctx, until, q, err)
	}
	if err != nil || knowsNoEDNS(msg.Rcode) {
		return refused, nil
	}
	p.avoid(edns, time.Now())
	return msg, nil
}

// overUDP asks with all the proof that the server is known to give back.
func (p *peer) overUDP(ctx context.Context, until time.Time, q Question) (*dns.Msg, error) {
	return p.datagram(ctx, until, p.compose(q, p.dealsWith(edns|mixed|cookie)))
}

// prove asks by TCP what an unproven datagram has answered. If that does not work either, the server is taken for one
// that gives no such proof, and asked again.
func (p *peer) prove(ctx context.Context, until time.Time, q Question, doubt error) (*dns.Msg, error) {
	a := p.compose(q, edns|mixed|cookie)
	msg, err := p.overStream(ctx, until, a)
	switch {
	case err == nil:
		return msg, nil // what TCP answers teaches the traits by itself
	case ctx.Err() != nil || !time.Now().Before(until):
		return nil, fmt.Errorf("%w, and by TCP: %w", doubt, err)
	}
	if errors.Is(doubt, errCase) {
		p.avoid(mixed, time.Now())
	} else {
		p.avoid(cookie, time.Now())
	}
	if msg, again := p.overUDP(ctx, until, q); again == nil {
		return msg, nil
	}
	return nil, fmt.Errorf("%w, and by TCP: %w", doubt, err)
}
