package tunnels

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// Config is what a Table needs.
type Config struct {
	Log  *slog.Logger
	Most int // tunnels that are remembered at a time; those beyond are counted, and go on
	// MostRequests is how many requests may be under way at a time, and half of it those of one namespace's clients; those beyond do not go on.
	MostRequests int

	// Ask asks the gateway's table whether a tunnel may be there. An error is no answer: it is asked again.
	Ask func(context.Context, envoylog.Question) (envoylog.Answer, error)
	// Kernel has the connections.
	Kernel Kernel
	// Ender ends connections; nil where there is nobody for it.
	Ender Ender
	// Half gives the proxy's connections by which it has said that it sends no more, whose other end is open, and in which nothing has moved for at least so long; nil where nobody looks for them.
	Half func(quiet time.Duration, each func(sockdiag.Activity)) error
	// Whose is the SPIFFE id of who has an address, "" of others; nil is that nobody says.
	Whose func(netip.Addr) string
}

// Kernel has the connections (package sockdiag).
type Kernel interface {
	// Find completes one by its addresses; at a node's agent it is in the network of a pod, else in the agent's own, "".
	Find(pod string, local, remote netip.AddrPort) (sockdiag.Connection, error)
	// Open gives all that are open, of these pods.
	Open(pods []string, each func(sockdiag.Connection)) error
	// Activities gives all that are open, wherever the proxy may have some, and how they move.
	Activities(each func(sockdiag.Activity)) error
}

// Own is this process's own network's.
type Own struct{}

// Find implements Kernel.
func (Own) Find(_ string, local, remote netip.AddrPort) (sockdiag.Connection, error) {
	return sockdiag.Find(local, remote)
}

// Open implements Kernel.
func (Own) Open(_ []string, each func(sockdiag.Connection)) error { return sockdiag.Open(each) }

// Activities implements Kernel.
func (Own) Activities(each func(sockdiag.Activity)) error { return sockdiag.Activities(each) }

// Ender ends connections.
type Ender interface {
	// End resets one, and, where it is known, beyond, the proxy's connection with the server for it: what the proxy does by itself then may look to the server like a good end. Of
	// one that has ended before the error is sockdiag.ErrGone.
	End(ctx context.Context, of sockdiag.Connection, beyond ...sockdiag.Connection) error
	// Can says why none can be ended.
	Can(context.Context) error
}

// Stats are a Table's counters.
type Stats struct {
	Open, Questions, Denied           int    // tunnels; what is told apart of them; tunnels that are denied, and open
	Requests                          int    // of them, those that are requests
	Refused                           uint64 // requests that nobody could keep an eye on
	Untracked, Ended, Failed, Unasked uint64 // tunnels beyond Most, that nobody can ask about, or whose connection was not found; ended; not ended; questions without answer
	Silent                            uint64 // connections that were ended since they never carried a request
	Half                              uint64 // likewise, whose client had said all and whose server said nothing
}

// Table is which tunnels are open.
type Table struct {
	cfg  Config
	wake chan struct{}

	mu    sync.Mutex
	open  map[key]*tunnel
	plan  *plan
	stats Stats

	requests requests // that are under way
	numbered int64    // how many there have been

	clients clients                      // who is known by his address
	crowded map[netip.AddrPort]time.Time // clients of connections that nobody here knew, and that were ended to make room, and when

	silent silent // which connections carry requests

	half map[uint64]time.Time // half-closed connections with servers, by their cookies, and since when they are known

	cut []envoylog.Broken // connections whose request was ended in the middle of its answer

	complained, unanswered time.Time // when it was said last that a tunnel could not be ended, or asked about
}

// key tells tunnels apart as their records do. A client's port is used again; then it begins at another time.
type key struct {
	client netip.AddrPort // none of a request,
	began  int64          // nanoseconds; of a request its number, below 0
}

// tunnel is one that is open, or was ended and has no record yet; or a request that is under way.
type tunnel struct {
	key
	connection sockdiag.Connection
	beyond     []sockdiag.Connection  // the proxy's with the server for it, where that is known
	cut        func(why string) error // ends a request; nil of a connection
	asked      *question
	ended      string // why it was ended
	missed     bool   // the last sweep did not see it
}

// New makes a table. It does nothing by itself until Run does.
func New(cfg Config) *Table {
	return &Table{
		cfg: cfg, wake: make(chan struct{}, 1), open: map[key]*tunnel{}, requests: requests{of: map[string]*accounts{}}, plan: newPlan(), clients: clients{}, crowded: map[netip.AddrPort]time.Time{},
		silent: silent{ports: map[string]telling{}, spoke: map[netip.AddrPort]uint64{}},
	}
}

// Begin takes a tunnel that has begun.
func (t *Table) Begin(of envoylog.Tunnel) {
	t.mu.Lock()
	full := of.Unknown || len(t.open) >= t.cfg.Most
	if full {
		t.stats.Untracked++
	}
	t.mu.Unlock()
	if full {
		return
	}
	connection, err := t.cfg.Kernel.Find(of.Pod, of.Local, of.Client)
	if errors.Is(err, sockdiag.ErrGone) {
		return // it has ended meanwhile
	}
	var beyond []sockdiag.Connection
	if of.Server.IsValid() && err == nil {
		if c, err := t.cfg.Kernel.Find(of.Pod, of.Outward, of.Server); err == nil {
			beyond = append(beyond, c)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		if t.stats.Untracked++; t.stats.Untracked == 1 {
			t.cfg.Log.Error("a tunnel's connection cannot be found; it stays open whatever is decided later", "client", of.Client, "err", err)
		}
		return
	}
	k := key{of.Client, of.Began.UnixNano()}
	if t.open[k] != nil {
		return
	}
	now := time.Now()
	opened := &tunnel{key: k, connection: connection, beyond: beyond}
	t.open[k] = opened
	if t.plan.begin(of.Question, opened, of.Began, now) {
		t.rouse()
	}
}

// Done takes a tunnel whose record has come, and says why it was ended; "" where nobody here did. client is its address as records have it.
func (t *Table) Done(client string, began time.Time) (ended string) {
	from, err := netip.ParseAddrPort(client)
	if err != nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.open[key{from, began.UnixNano()}]
	if was == nil {
		return ""
	}
	t.forget(was)
	return was.ended
}

func (t *Table) forget(gone *tunnel) {
	delete(t.open, gone.key)
	t.plan.done(gone)
}

// Changed takes which resources of a type Envoy has taken, or lost.
func (t *Table) Changed(of Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plan.change(of, time.Now()) {
		t.rouse()
	}
}

// Ends says whether connections can be ended, which it tries.
func (t *Table) Ends(ctx context.Context) bool {
	return t.cfg.Ender != nil && t.cfg.Ender.Can(ctx) == nil
}

// Stats counts.
func (t *Table) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Open, s.Questions = len(t.open), len(t.plan.questions)
	for _, q := range t.plan.questions {
		if q.denied != "" {
			for of := range q.tunnels {
				if of.ended == "" {
					s.Denied++
				}
			}
		}
	}
	return s
}

// Each gives what is asked about what is open, and under way.
func (t *Table) Each(give func(envoylog.Question)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for of := range t.plan.questions {
		give(of)
	}
}

// rouse makes Run look again.
func (t *Table) rouse() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
