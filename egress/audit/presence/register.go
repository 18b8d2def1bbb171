package presence

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/xds/wire"
)

// Proxy is one that is connected to a controller.
type Proxy struct {
	ID    string    `json:"id"`             // its node id, which is that of its records, too
	Since time.Time `json:"since,omitzero"` // since when it is there, as far as is known
}

// Bounds of what is kept.
const (
	good           = 5 * time.Minute  // what a controller told counts for so long
	remembered     = 15 * time.Minute // a proxy that no controller names any more: it may be on its way from one to another
	maxControllers = 64
	maxProxies     = 100_000 // of a controller
	maxID          = 1024    // bytes, as in records
)

// Register has what controllers told. Its zero value is not ready: see New.
type Register struct {
	now func() time.Time

	mu    sync.Mutex
	told  map[string]told      // by controller
	known map[string]*presence // by proxy
}

// told is what a controller told last.
type told struct {
	at  time.Time
	ids []string
}

// presence is since when a proxy is there, and until when it was.
type presence struct{ since, last time.Time }

// New makes a register in which nobody is; now is nil for the clock.
func New(now func() time.Time) *Register {
	if now == nil {
		now = time.Now
	}
	return &Register{now: now, told: map[string]told{}, known: map[string]*presence{}}
}

// tell replaces what a controller told before.
func (r *Register) tell(controller string, proxies []Proxy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now().UTC()
	r.forget(now)
	ids := make([]string, 0, len(proxies))
	for _, p := range proxies {
		ids = append(ids, p.ID)
		known := r.known[p.ID]
		if known == nil {
			known = &presence{since: now}
			r.known[p.ID] = known
		}
		if !p.Since.IsZero() && p.Since.Before(known.since) {
			known.since = p.Since.UTC()
		}
		known.last = now
	}
	r.told[controller] = told{now, ids}
}

// forget drops what is too old.
func (r *Register) forget(now time.Time) {
	for controller, l := range r.told {
		if now.Sub(l.at) > good {
			delete(r.told, controller)
		}
	}
	for id, p := range r.known {
		if now.Sub(p.last) > remembered {
			delete(r.known, id)
		}
	}
}

// full says whether one more controller would be too many.
func (r *Register) full(controller string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(r.now())
	_, known := r.told[controller]
	return !known && len(r.told) >= maxControllers
}

// Connected are the proxies that are connected, in the order of their ids, each once. some is false where no controller has told lately.
func (r *Register) Connected() (proxies []Proxy, some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(r.now())
	if len(r.told) == 0 {
		return nil, false
	}
	proxies = []Proxy{}
	for _, l := range r.told {
		for _, id := range l.ids {
			proxies = append(proxies, Proxy{id, r.known[id].since})
		}
	}
	slices.SortFunc(proxies, func(a, b Proxy) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(proxies, func(a, b Proxy) bool { return a.ID == b.ID }), true
}

// Namespace is that in the node id; "" where there is none.
func (p Proxy) Namespace() string {
	_, namespace := wire.PodOfNode(p.ID)
	return namespace
}

// valid says whether an id is one.
func valid(id string) bool {
	return id != "" && len(id) <= maxID && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}
