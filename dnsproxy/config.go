package dnsproxy

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// Config of a Server. What is zero has the default that is named; durations below zero switch a thing off.
type Config struct {
	Views []View

	// Upstreams are recursive resolvers: IP or IP:PORT, tcp://IP[:PORT], or tls://IP[:PORT]#NAME for DNS over TLS with the
	// name in the server's certificate. They must answer alike: the fastest is asked, another when it is slow or fails.
	Upstreams []string
	// UpstreamRoots vouch for those asked by TLS. nil: the system's.
	UpstreamRoots *x509.CertPool
	// ResolvConf is a file in resolv.conf's form whose nameservers are used, and followed when it changes, instead of
	// Upstreams. Addresses that the Server itself listens on are left out.
	ResolvConf string
	// Forward sends the questions for a domain and all below it to other resolvers, as in Upstreams. The longest domain counts.
	Forward map[string][]string
	// Patience is how long upstream resolvers may take for one question, with all attempts. 4 s.
	Patience time.Duration

	// CacheBytes bounds the cache, in bytes. 4 MiB.
	CacheBytes int
	// MaxTTL cuts longer TTLs off. 24 h.
	MaxTTL time.Duration
	// MaxNegativeTTL is the same for answers that say "there is none" (RFC 2308). 15 min.
	MaxNegativeTTL time.Duration
	// FailureTTL is how long the failure of all upstreams is remembered (RFC 9520). 2 s.
	FailureTTL time.Duration
	// MaxStale is how long after its TTL an answer is given while no upstream answers (RFC 8767). 1 h; below 0: never.
	MaxStale time.Duration
	// StaleAfter is how long a client waits for a fresh answer before it gets the stale one (RFC 8767 section 5). 1.8 s.
	StaleAfter time.Duration
	// StaleRetry is how long a stale answer is given without asking upstream again after a failure. 30 s.
	StaleRetry time.Duration
	// StaleTTL is the TTL of stale answers. 30 s.
	StaleTTL time.Duration
	// Prefetch fetches an answer again before it expires when it is asked for in the last tenth of its TTL.
	Prefetch bool

	// HoldBack is how long a question waits for the first name table (Table.SetReady) before SERVFAIL. 4 s.
	HoldBack time.Duration

	// MaxInFlight bounds the questions that wait for somebody else, and MaxUpstream those that are being asked
	// upstream; above them the answer is SERVFAIL, or a stale one. 1024 and 512. Of both, askers at sockets that were opened
	// (Server.Open) have shares, of the second the domains of names, too (limit.Shares): one alone has half of them at most.
	MaxInFlight, MaxUpstream int
	// MaxConns bounds TCP connections for each address; above half of it, idle ones are closed early. 128.
	MaxConns int
	// IdleTimeout is how long a TCP connection may take for one whole question. 10 s.
	IdleTimeout time.Duration
	// Grace is how long questions in flight may take when the server stops. 2 s.
	Grace time.Duration

	// OnDecision is told how each question was answered. It is called on the way of the answer: it must not block.
	OnDecision func(Decision)
	// OnDeny is the same for denials alone, which costs other answers nothing.
	OnDeny func(Decision)
	// OnRefuse is told of each answer out of which View.Refuse took addresses. It must not block.
	OnRefuse func(Refusal)

	firstAttempt time.Duration // upstream.Config's, for tests that count how often upstream is asked

	Log *slog.Logger     // nil: silent
	Now func() time.Time // nil: time.Now. It ages the cache, it does not run timers
}

// View is one way to answer, with its own addresses to listen on.
type View struct {
	// Name is the view's name in metrics and decisions, like "app" or "resolver".
	Name string
	// Listen are IP:PORT, each for UDP and TCP. Port 0 takes a free one: see Server.Addr.
	Listen []string
	// Asker is whose the questions are, where all are one workload's. nil: clients are told apart by their addresses, all of the loopback's being one.
	Asker *Asker
	// Names answers from the name table first, and holds questions back until there is one.
	Names bool
	// Search are domains that clients append to what they look up: NAME.DOMAIN is answered from the table's NAME.
	Search []string
	// Use is told of each name that is asked for the addresses of, in lower case and wire format, or that stands for one by a search
	// domain. What it gives is waited for before the answer; nil: nothing. It must be quick. Where that ends in an error, names of the table are answered
	// with SERVFAIL, and with the error as an extended one (RFC 8914).
	Use func(name []byte) (wait func(context.Context) error)
	// Policy decides about names that the table does not answer, cached or not. nil: all are forwarded. It is called
	// for each such question: it must be quick.
	Policy func(Question) Action
	// MaxTTL cuts longer TTLs off in this view's answers, which are kept for as long as Config.MaxTTL says. 0: they are not cut.
	MaxTTL time.Duration
	// Refuse says which addresses may not be answered for a host (lower case, no last dot). They are taken out of
	// answers before these are kept; when none is left the answer is NOERROR without addresses, so that the client
	// neither asks the next resolver nor takes the name for gone. nil: none. Server.Flush after its mind has changed.
	Refuse func(host string, addr netip.Addr) bool
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	set(&c.Patience, upstream.DefaultPatience)
	set(&c.CacheBytes, 4<<20)
	set(&c.MaxTTL, 24*time.Hour)
	set(&c.MaxNegativeTTL, 15*time.Minute)
	set(&c.FailureTTL, 2*time.Second)
	set(&c.MaxStale, time.Hour)
	set(&c.StaleAfter, 1800*time.Millisecond)
	set(&c.StaleRetry, 30*time.Second)
	set(&c.StaleTTL, 30*time.Second)
	set(&c.HoldBack, 4*time.Second)
	set(&c.MaxInFlight, 1024)
	set(&c.MaxUpstream, 512)
	set(&c.MaxConns, 128)
	set(&c.IdleTimeout, 10*time.Second)
	set(&c.Grace, 2*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func set[T ~int | ~int64](value *T, unset T) {
	if *value == 0 {
		*value = unset
	}
}
