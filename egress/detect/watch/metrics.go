package watch

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/egress/detect"
)

// Metrics of a watch; register them where they are served.
type Metrics struct {
	findings *prometheus.CounterVec
	sends    *prometheus.CounterVec
	passes   prometheus.Counter
	took     prometheus.Gauge
	broken   prometheus.Gauge
}

// NewMetrics makes metrics that nobody sees yet.
func NewMetrics() *Metrics {
	return &Metrics{
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_detect_findings_total", Help: "Findings, each counted when it is new, and when it is repeated.",
		}, []string{"detection", "severity"}),
		sends: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sallyport_detect_sent_findings_total", Help: "Findings that were sent, by kind of receiver and whether it took them.",
		}, []string{"to", "result"}),
		passes: prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_detect_passes_total", Help: "How often all rules were run."}),
		took:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_detect_pass_seconds", Help: "How long the last pass took, with its rests."}),
		broken: prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_detect_broken_rules", Help: "Rules that broke in the last pass."}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, c) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, x := range []prometheus.Collector{m.findings, m.sends, m.passes, m.took, m.broken} {
		x.Collect(c)
	}
}

func (m *Metrics) found(f *detect.Finding) {
	m.findings.WithLabelValues(f.Detection, f.Severity.String()).Inc()
}

func (m *Metrics) sent(sink string, n int, err error) {
	kind, _, _ := strings.Cut(sink, "=")
	result := "taken"
	if err != nil {
		result = "failed"
	}
	m.sends.WithLabelValues(kind, result).Add(float64(n))
}

func (m *Metrics) passed(r *detect.Report, took time.Duration) {
	m.passes.Inc()
	m.took.Set(took.Seconds())
	m.broken.Set(float64(len(r.Failed)))
}
