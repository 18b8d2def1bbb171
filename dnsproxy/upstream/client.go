package upstream

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// DefaultPatience is how long a question may take in all, over all servers and attempts. The C libraries ask again
// after 5 s.
const DefaultPatience = 4 * time.Second

// Config of a Client.
type Config struct {
	Servers  []Server
	Patience time.Duration // 0: DefaultPatience
	// FirstAttempt is how long the first attempt at a server may take, and how long is waited before another server is asked as well. 0: what fits the server's
	// transport, and how quick it has been.
	FirstAttempt time.Duration
	// Roots vouch for the servers asked by TLS. nil: the system's.
	Roots *x509.CertPool
	// Observe is told of each attempt, probes too: the server, the time it took, and what went wrong. Optional.
	Observe func(server Server, took time.Duration, err error)
}

// Client asks a set of servers that answer alike. It is safe for concurrent use.
type Client struct {
	config Config
	pace   *pace
	peers  atomic.Pointer[[]*peer]
	mu     sync.Mutex // one writer of peers

	base   context.Context // of what goes on without a question: probes, connections
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// New makes a client; it does not talk to the servers yet. Close it.
func New(config Config) *Client { return newClient(config, &usualPace) }

func newClient(config Config, p *pace) *Client {
	if config.Patience <= 0 {
		config.Patience = DefaultPatience
	}
	if config.Observe == nil {
		config.Observe = func(Server, time.Duration, error) {}
	}
	if first := config.FirstAttempt; first > 0 {
		p = &pace{unmeasured: first, least: first, most: first, datagram: first, stream: first, unproven: p.unproven}
	}
	c := &Client{config: config, pace: p}
	c.base, c.cancel = context.WithCancel(context.Background())
	c.SetServers(config.Servers)
	return c
}

// Close ends what is under way and all connections.
func (c *Client) Close() {
	c.cancel()
	c.SetServers(nil)
	c.work.Wait()
}

// SetServers asks other servers from now on. What is known of those that stay is kept.
func (c *Client) SetServers(servers []Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[Server]*peer{}
	if old := c.peers.Load(); old != nil {
		for _, p := range *old {
			known[p.Server] = p
		}
	}
	next := make([]*peer, 0, len(servers))
	for _, s := range servers {
		p := known[s]
		if p == nil {
			p = newPeer(s, c.config.Roots, c.pace)
		}
		delete(known, s)
		next = append(next, p)
	}
	c.peers.Store(&next)
	for _, gone := range known {
		gone.pool.close()
	}
}

// Servers are the ones that are asked, in the configured order.
func (c *Client) Servers() []Server {
	var servers []Server
	for _, p := range *c.peers.Load() {
		servers = append(servers, p.Server)
	}
	return servers
}

// Question is what is asked upstream.
type Question struct {
	Name        string // fully qualified, lower case, in the library's text form
	Type, Class uint16
	DO, CD      bool
}

// Response is what a server said.
type Response struct {
	Msg    *dns.Msg
	Server Server
}

// ErrNoServers is returned where no upstream is configured.
var ErrNoServers = errors.New("no upstream resolver is configured")

// Exchange asks until a server answers NOERROR or NXDOMAIN. Other response codes make it try the next server; if no
// better answer comes, the first of them is returned.
func (c *Client) Exchange(ctx context.Context, q Question) (Response, error) {
	peers := inOrder(*c.peers.Load())
	if len(peers) == 0 {
		return Response{}, ErrNoServers
	}
	if len(peers) > 1 {
		c.probe(peers, q, time.Now())
	}
	return newRace(c, q, peers).run(ctx)
}

// Status is how a server is doing.
type Status struct {
	Server Server
	Ill    bool          // it did not answer the last time
	SRTT   time.Duration // smoothed round-trip time; 0: not measured
}

// Status lists the servers in the order in which they would be asked now.
func (c *Client) Status() []Status {
	var all []Status
	for _, p := range inOrder(*c.peers.Load()) {
		p.mu.Lock()
		all = append(all, Status{Server: p.Server, Ill: p.failures > 0, SRTT: p.srtt})
		p.mu.Unlock()
	}
	return all
}
