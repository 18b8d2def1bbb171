package serve

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// Metrics are what a server counts.
type Metrics struct {
	connected prometheus.Gauge
	pushes    *prometheus.CounterVec
	refused   *prometheus.CounterVec
}

// NewMetrics makes and registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		connected: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sallyport_xds_proxies", Help: "Proxies that are connected.",
		}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_xds_responses_total", Help: "Responses sent, by type of resource.",
		}, []string{"type"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_xds_refused_total", Help: "Responses that a proxy refused (NACK), by type of resource.",
		}, []string{"type"}),
	}
	r.MustRegister(m.connected, m.pushes, m.refused)
	return m
}

// streamStats is what is known of how far a stream is, for each type.
type streamStats struct {
	mu    sync.Mutex
	types [typeCount]progress
}

type typeStats struct {
	Sent      string   `json:"sent,omitempty"`         // nonce of the last response
	Acked     string   `json:"acknowledged,omitempty"` // nonce of the last one that was taken
	Problem   string   `json:"problem,omitempty"`      // why something was refused that was not taken since
	Resources []string `json:"refusedResources,omitempty"`
	Refused   int      `json:"refused,omitempty"` // responses
	Upserts   int      `json:"upserts"`
	Removals  int      `json:"removals"`
}

func (s *streamStats) sent(t resource.Type, upserts, removals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].Upserts += upserts
	s.types[t].Removals += removals
	s.types[t].unheard++
}

// unheard is how many responses the client has not spoken about. (One of a state-of-the-world stream is spoken about when
// its type is asked for again.)
func (s *streamStats) unheard(t resource.Type) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types[t].unheard
}

// refuses says whether the client has something of a type not as it was sent to it.
func (s *streamStats) refuses(t resource.Type) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.types[t].refused) > 0
}

// responded notes a response of a delta stream.
func (s *streamStats) responded(t resource.Type, nonce string, content *payload, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].sentOut(sending{nonce, content, removed})
}

// respondedWhole notes a response of a state-of-the-world stream.
func (s *streamStats) respondedWhole(t resource.Type, nonce, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].Sent, s.types[t].version = nonce, version
}

func (s *streamStats) version(t resource.Type) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types[t].version
}

// heard notes what a delta client says about a response: why it refuses it, or "".
func (s *streamStats) heard(t resource.Type, nonce, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.types[t]
	about, known := p.about(nonce)
	switch {
	case problem != "":
		p.refuse(t, about, problem)
	case known:
		p.took(about)
	}
}

// heardWhole notes what a state-of-the-world client says: it has taken the last response when it says that response's
// version. One with another version asks for other names, and has what it had.
func (s *streamStats) heardWhole(t resource.Type, nonce, version, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.types[t]
	p.unheard = 0
	switch {
	case problem != "":
		p.refuse(t, sending{}, problem)
	case nonce == p.Sent && version == p.version:
		p.Acked, p.refused = nonce, nil
	}
}

// returned notes that what a state-of-the-world client was to have is what it kept when it refused something.
func (s *streamStats) returned(t resource.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := &s.types[t]; len(p.refused) > 0 {
		p.Acked, p.refused = p.Sent, nil
	}
}

// dropped notes names that a delta client unsubscribed from.
func (s *streamStats) dropped(t resource.Type, names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].dropped(names)
}

// retries says whether something that was refused is worth another try.
func (s *streamStats) retries(t resource.Type) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.types[t].again) > 0
}

// retry gives the names of what is to be sent again, once.
func (s *streamStats) retry(t resource.Type) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.types[t].again
	s.types[t].again = nil
	return names
}

// forget drops what a response said, for a client that is too far behind to be listened to.
func (s *streamStats) forget(t resource.Type) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].open, s.types[t].unheard = nil, 0
}

// ProxyStatus is what a connected proxy has and whether that is everything.
type ProxyStatus struct {
	ID        string               `json:"id"`
	Namespace string               `json:"namespace"`
	Synced    bool                 `json:"synced"`
	Ends      string               `json:"endsConnections,omitempty"` // wire.EndsConnectionsMetadata
	Types     map[string]typeStats `json:"types"`
}

// Proxies lists who is connected, in order of their ids.
func (c *Cache) Proxies() []ProxyStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]ProxyStatus, 0, len(c.streams))
	for _, st := range c.streams {
		out = append(out, st.status(c.snapshot.Mesh.TraceProxies))
	}
	slices.SortFunc(out, func(a, b ProxyStatus) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Connected are the ids of those who are connected and proved who they are, in order, each once.
func (c *Cache) Connected() []string {
	c.mu.Lock()
	ids := make([]string, 0, len(c.streams))
	for _, st := range c.streams {
		if !st.proxy.Plain {
			ids = append(ids, st.node.GetId())
		}
	}
	c.mu.Unlock()
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (s *stream) status(traceProxies bool) ProxyStatus {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	p := ProxyStatus{ID: s.node.GetId(), Namespace: s.proxy.Namespace, Synced: true, Ends: s.endsBy(traceProxies), Types: map[string]typeStats{}}
	for _, t := range resource.Types() {
		of := &s.stats.types[t]
		if of.Sent == "" {
			continue
		}
		p.Types[t.URL()] = of.status()
		p.Synced = p.Synced && of.synced()
	}
	return p
}

// ViewOf gives what a connected proxy is programmed with, and the policies that govern it; false when none has that id.
func (c *Cache) ViewOf(id string) (view, policies *translate.View, connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.streams {
		if st.node.GetId() == id {
			return st.class.view, st.policed.view, true
		}
	}
	return nil, nil, false
}
