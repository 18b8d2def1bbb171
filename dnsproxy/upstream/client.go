package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// DefaultPatience is how long a question may take in all, over all servers and attempts.
const DefaultPatience = 5 * time.Second

// rounds is how often each server is asked at most.
const rounds = 3

// Config of a Client.
type Config struct {
	Servers  []netip.AddrPort
	Patience time.Duration // 0: DefaultPatience
	// Observe is told of each attempt: the server, the time it took, and what went wrong. Optional.
	Observe func(server netip.AddrPort, took time.Duration, err error)
}

// Client asks a set of servers that answer alike. It is safe for concurrent use.
type Client struct {
	patience time.Duration
	observe  func(netip.AddrPort, time.Duration, error)
	servers  atomic.Pointer[[]*server]
}

// New makes a client; it does not talk to the servers yet.
func New(config Config) *Client {
	c := &Client{patience: config.Patience, observe: config.Observe}
	if c.patience <= 0 {
		c.patience = DefaultPatience
	}
	if c.observe == nil {
		c.observe = func(netip.AddrPort, time.Duration, error) {}
	}
	c.SetServers(config.Servers)
	return c
}

// SetServers asks other servers from now on. What is known of those that stay is kept.
func (c *Client) SetServers(addrs []netip.AddrPort) {
	known := map[netip.AddrPort]*server{}
	if old := c.servers.Load(); old != nil {
		for _, s := range *old {
			known[s.addr] = s
		}
	}
	next := make([]*server, 0, len(addrs))
	for _, addr := range addrs {
		s := known[addr]
		if s == nil {
			s = &server{addr: addr}
		}
		next = append(next, s)
	}
	c.servers.Store(&next)
}

// Servers are the ones that are asked, in the configured order.
func (c *Client) Servers() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, s := range *c.servers.Load() {
		addrs = append(addrs, s.addr)
	}
	return addrs
}

// Question is what is asked upstream.
type Question struct {
	Name        string // fully qualified, in the library's text form
	Type, Class uint16
	DO, CD      bool
}

// Response is what a server said.
type Response struct {
	Msg    *dns.Msg
	Server netip.AddrPort
}

// ErrNoServers is returned where no upstream is configured.
var ErrNoServers = errors.New("no upstream resolver is configured")

// Exchange asks until a server answers NOERROR or NXDOMAIN. Other response codes make it try the next server; if no
// better answer comes, the first of them is returned.
func (c *Client) Exchange(ctx context.Context, q Question) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	servers := inOrder(*c.servers.Load(), time.Now())
	if len(servers) == 0 {
		return Response{}, ErrNoServers
	}
	attempt := attempts{client: c, question: q, declined: map[*server]bool{}}
	for round := range rounds {
		for _, s := range servers {
			if response, ok := attempt.ask(ctx, s, round); ok {
				return response, nil
			}
		}
		if len(attempt.declined) == len(servers) || !pause(ctx, round) {
			break
		}
	}
	return attempt.result()
}

// pause leaves servers that fail at once, as one that restarts does, a moment before they are asked again.
func pause(ctx context.Context, round int) bool {
	timer := time.NewTimer(50 * time.Millisecond << (2 * round))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempts collects what the servers did for one question.
type attempts struct {
	client   *Client
	question Question
	declined map[*server]bool // they answered, but with a failure
	bad      Response         // the first such answer
	errs     []error
}

// ask tries one server, unless it has declined already.
func (a *attempts) ask(ctx context.Context, s *server, round int) (Response, bool) {
	if a.declined[s] || ctx.Err() != nil {
		return Response{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, 800*time.Millisecond<<round)
	defer cancel()
	start := time.Now()
	msg, err := s.exchange(ctx, a.question)
	took := time.Since(start)
	if err == nil && msg.Rcode != dns.RcodeSuccess && msg.Rcode != dns.RcodeNameError {
		err = fmt.Errorf("%w: %s", ErrDeclined, dns.RcodeToString[msg.Rcode])
		a.declined[s] = true
		if a.bad.Msg == nil {
			a.bad = Response{Msg: msg, Server: s.addr}
		}
	}
	a.client.observe(s.addr, took, err)
	s.note(err, time.Now())
	if err != nil {
		a.errs = append(a.errs, fmt.Errorf("upstream %s: %w", s.addr, err))
		return Response{}, false
	}
	return Response{Msg: msg, Server: s.addr}, true
}

func (a *attempts) result() (Response, error) {
	if a.bad.Msg != nil {
		return a.bad, nil
	}
	return Response{}, errors.Join(a.errs...)
}
