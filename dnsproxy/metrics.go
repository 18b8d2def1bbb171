package dnsproxy

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// metrics are the server's; Server collects them.
type metrics struct {
	queries, answers, refused, drops *prometheus.CounterVec
	odd                              *prometheus.CounterVec
	upstreamErrors                   *prometheus.CounterVec
	upstreamSeconds                  *prometheus.HistogramVec
	cacheEntries, cacheBytes, names  *prometheus.Desc
	evictions                        *prometheus.Desc
}

// viewCounts are one view's, looked up once.
type viewCounts struct {
	udp, tcp, refused prometheus.Counter
	answers           [sourceCount]prometheus.Counter
	odd               [limit.OddCount]prometheus.Counter
}

type upstreamObserver = func(upstream.Server, time.Duration, error)

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_dns_" + name, Help: help}, labels)
	}
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("sallyport_dns_"+name, help, nil, nil)
	}
	return &metrics{
		queries:        counter("queries_total", "Questions received.", "view", "protocol"),
		answers:        counter("answers_total", "Answers by where they came from: table, cache (hits), upstream (misses), stale, policy, limited, failure, protocol.", "view", "source"),
		refused:        counter("refused_addresses_total", "Addresses taken out of answers because they are inside.", "view"),
		odd:            counter("odd_questions_total", "Questions not answered from memory that look like a tunnel's: type, long, random.", "view", "kind"),
		drops:          counter("rejected_total", "Questions and connections turned away because a bound was reached.", "reason"),
		upstreamErrors: counter("upstream_errors_total", "Attempts that failed.", "upstream", "reason"),
		upstreamSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sallyport_dns_upstream_seconds", Help: "Time an attempt took, failed ones included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"upstream"}),
		cacheEntries: desc("cache_entries", "Answers kept."),
		cacheBytes:   desc("cache_bytes", "Memory of the answers kept."),
		evictions:    desc("cache_evictions_total", "Answers that had to go for others."),
		names:        desc("names", "Hosts in the name table."),
	}
}

func (m *metrics) view(name string) viewCounts {
	c := viewCounts{
		udp: m.queries.WithLabelValues(name, "udp"), tcp: m.queries.WithLabelValues(name, "tcp"),
		refused: m.refused.WithLabelValues(name),
	}
	for source := range sourceCount {
		c.answers[source] = m.answers.WithLabelValues(name, source.String())
	}
	for kind := limit.Usual + 1; kind < limit.OddCount; kind++ {
		c.odd[kind] = m.odd.WithLabelValues(name, kind.String())
	}
	return c
}

func (c *viewCounts) query(tcp bool) {
	if tcp {
		c.tcp.Inc()
	} else {
		c.udp.Inc()
	}
}

// observe counts an attempt at an upstream resolver.
func (m *metrics) observe(server upstream.Server, took time.Duration, err error) {
	label := server.String()
	m.upstreamSeconds.WithLabelValues(label).Observe(took.Seconds())
	if err != nil {
		m.upstreamErrors.WithLabelValues(label, reason(err)).Inc()
	}
}

func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, upstream.ErrDeclined):
		return "declined"
	case errors.Is(err, upstream.ErrBeaten):
		return "beaten"
	case errors.Is(err, upstream.ErrUnproven), errors.Is(err, upstream.ErrMismatch):
		return "unproven"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	default:
		return "network"
	}
}

func (m *metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.queries, m.answers, m.refused, m.drops, m.odd, m.upstreamErrors, m.upstreamSeconds}
}

// Describe is part of prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.metrics.vectors() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{s.metrics.cacheEntries, s.metrics.cacheBytes, s.metrics.evictions, s.metrics.names} {
		ch <- d
	}
}

// Collect is part of prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.metrics.vectors() {
		c.Collect(ch)
	}
	stats := s.cache.Stats()
	ch <- prometheus.MustNewConstMetric(s.metrics.cacheEntries, prometheus.GaugeValue, float64(stats.Entries))
	ch <- prometheus.MustNewConstMetric(s.metrics.cacheBytes, prometheus.GaugeValue, float64(stats.Bytes))
	ch <- prometheus.MustNewConstMetric(s.metrics.evictions, prometheus.CounterValue, float64(stats.Evictions))
	ch <- prometheus.MustNewConstMetric(s.metrics.names, prometheus.GaugeValue, float64(s.table.Len()))
}
