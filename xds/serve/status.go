package serve

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

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
	types [typeCount]typeStats
}

type typeStats struct {
	version  string // of the last response, on state-of-the-world streams
	Sent     string `json:"sent,omitempty"`         // nonce of the last response
	Acked    string `json:"acknowledged,omitempty"` // nonce of the last one that was taken
	Problem  string `json:"problem,omitempty"`      // why the last one was refused
	Refused  int    `json:"refused,omitempty"`
	Upserts  int    `json:"upserts"`
	Removals int    `json:"removals"`
}

func (s *streamStats) sent(t translate.Type, upserts, removals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].Upserts += upserts
	s.types[t].Removals += removals
}

func (s *streamStats) responded(t translate.Type, nonce, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].Sent, s.types[t].version = nonce, version
}

func (s *streamStats) version(t translate.Type) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.types[t].version
}

func (s *streamStats) heard(t translate.Type, nonce, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.types[t].Problem = problem
	if problem != "" {
		s.types[t].Refused++
		return
	}
	s.types[t].Acked = nonce
}

// ProxyStatus is what a connected proxy has and whether that is everything.
type ProxyStatus struct {
	ID        string               `json:"id"`
	Namespace string               `json:"namespace"`
	Synced    bool                 `json:"synced"`
	Types     map[string]typeStats `json:"types"`
}

// Proxies lists who is connected, in order of their ids.
func (c *Cache) Proxies() []ProxyStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]ProxyStatus, 0, len(c.streams))
	for _, st := range c.streams {
		out = append(out, st.status())
	}
	slices.SortFunc(out, func(a, b ProxyStatus) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (s *stream) status() ProxyStatus {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	p := ProxyStatus{ID: s.node.GetId(), Namespace: s.proxy.Namespace, Synced: true, Types: map[string]typeStats{}}
	for _, t := range translate.Types() {
		st := s.stats.types[t]
		if st.Sent == "" {
			continue
		}
		p.Types[t.URL()] = st
		p.Synced = p.Synced && st.Problem == "" && st.Sent == st.Acked
	}
	return p
}

// ViewOf gives what a connected proxy is programmed with; false when none has that id.
func (c *Cache) ViewOf(id string) (*translate.View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.streams {
		if st.node.GetId() == id {
			return st.class.view, true
		}
	}
	return nil, false
}
