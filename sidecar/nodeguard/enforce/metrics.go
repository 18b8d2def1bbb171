package enforce

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// metrics are the descriptions of what is exported.
type metrics struct {
	packets, bytes, dropped, pods, ready, repairs *prometheus.Desc
}

func newMetrics() metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sallyport_guard_"+name, help, labels, nil)
	}
	return metrics{
		packets: desc("refused_packets_total", "Packets to the world that guarded pods were refused.", "namespace", "pod", "address"),
		bytes:   desc("refused_bytes_total", "Bytes of those packets.", "namespace", "pod", "address"),
		dropped: desc("dropped_packets_total", "Packets dropped without an answer: of pods not heard of yet (unknown), with a source that belongs elsewhere (spoofed), from the world on connections from before their pod was guarded (answers).", "reason"),
		pods:    desc("addresses", "Addresses of this node's pods: guarded ones, and open ones, which may reach the world.", "state"),
		ready:   desc("in_force", "1 when the kernel holds the rules of the latest view of the cluster."),
		repairs: desc("repairs_total", "How often the table was written again because somebody had changed it."),
	}
}

var _ prometheus.Collector = (*Guard)(nil)

// Describe implements [prometheus.Collector].
func (g *Guard) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.metrics.packets, g.metrics.bytes, g.metrics.dropped, g.metrics.pods, g.metrics.ready, g.metrics.repairs} {
		to <- d
	}
}

// Collect reads the kernel's counters. A counter begins anew with this process and when the table had to be written again.
func (g *Guard) Collect(to chan<- prometheus.Metric) {
	g.mu.Lock()
	plan, problem, repairs := g.plan, g.problem, g.repairs
	g.mu.Unlock()
	inForce := 0.0
	if plan != nil && problem == nil {
		inForce = 1
	}
	to <- prometheus.MustNewConstMetric(g.metrics.ready, prometheus.GaugeValue, inForce)
	to <- prometheus.MustNewConstMetric(g.metrics.repairs, prometheus.CounterValue, float64(repairs))
	if plan == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(g.metrics.pods, prometheus.GaugeValue, float64(plan.Guarded()), "guarded")
	to <- prometheus.MustNewConstMetric(g.metrics.pods, prometheus.GaugeValue, float64(plan.Open()), "open")
	g.writing.Lock()
	counts, err := g.kernel.Counts()
	g.writing.Unlock()
	if err != nil {
		to <- prometheus.NewInvalidMetric(g.metrics.packets, err)
		return
	}
	for a, c := range counts.Refused {
		owner := plan.Pods[a]
		to <- prometheus.MustNewConstMetric(g.metrics.packets, prometheus.CounterValue, float64(c.Packets), owner.Namespace, owner.Name, a.String())
		to <- prometheus.MustNewConstMetric(g.metrics.bytes, prometheus.CounterValue, float64(c.Bytes), owner.Namespace, owner.Name, a.String())
	}
	for _, name := range nodeguard.Counters {
		to <- prometheus.MustNewConstMetric(g.metrics.dropped, prometheus.CounterValue, float64(counts.Named[name].Packets), name)
	}
}
