package pair

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Register offers this side's end on a gRPC server, to the other server and nobody else: what comes by it is believed.
func (l *Link) Register(r grpc.ServiceRegistrar) {
	server := ingest.NewServer(copies{l}, nil, l.Logger)
	server.Copies(l.id)
	server.Register(r)
}

// copies stores what the other server has.
type copies struct{ *Link }

// Store implements ingest.Sink; no records at all say that this server has all that there were.
func (c copies) Store(ctx context.Context, records []record.Record) error {
	if len(records) == 0 {
		c.hear()
		return nil
	}
	return c.store.Copy(ctx, records)
}

// Metrics of a link; register them where they are served.
type Metrics struct {
	inStep                prometheus.Gauge
	copied, alone, missed prometheus.Counter
}

// NewMetrics makes metrics that nobody sees yet.
func NewMetrics() *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_audit_pair_" + name, Help: help})
	}
	return &Metrics{
		inStep: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_audit_pair_in_step", Help: "1 while the other audit server has all that this one acknowledged."}),
		copied: counter("copied_records_total", "Records that the other audit server took from this one."),
		alone:  counter("alone_records_total", "Records that were acknowledged while the other audit server did not have them."),
		missed: counter("missed_records_total", "Records that were deleted for their age before the other audit server had them."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, c) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, x := range []prometheus.Collector{m.inStep, m.copied, m.alone, m.missed} {
		x.Collect(c)
	}
}
