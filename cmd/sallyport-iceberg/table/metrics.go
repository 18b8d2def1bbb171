package table

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of a keeper; register them where they are served.
type Metrics struct {
	until, failing, files, records, left prometheus.Gauge
	failures, conflicts                  prometheus.Counter
	changed                              *prometheus.CounterVec
}

// NewMetrics makes metrics that nobody sees yet.
func NewMetrics() *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_iceberg_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_iceberg_" + name, Help: help})
	}
	return &Metrics{
		until:     gauge("until_seconds", "Up to when the table has what came in, in Unix seconds."),
		failing:   gauge("failing", "1 when the last try failed."),
		files:     gauge("files", "Files in the table."),
		records:   gauge("records", "Records in the table."),
		left:      gauge("left_files", "Files of the lake that no table can have, since they are of before its numbers were signed."),
		failures:  counter("failures_total", "Tries that failed."),
		conflicts: counter("conflicts_total", "Commits that the catalog refused since somebody else had committed."),
		changed:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_iceberg_files_total", Help: "Files, by what became of them: added, or removed."}, []string{"what"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, c) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, x := range []prometheus.Collector{m.until, m.failing, m.files, m.records, m.left, m.failures, m.conflicts, m.changed} {
		x.Collect(c)
	}
}

func (m *Metrics) did(added, removed int) {
	m.changed.WithLabelValues("added").Add(float64(added))
	m.changed.WithLabelValues("removed").Add(float64(removed))
}

func (m *Metrics) told(s *Status, err error) {
	if err != nil {
		m.failing.Set(1)
		m.failures.Inc()
		return
	}
	m.failing.Set(0)
	m.until.Set(float64(s.Until.UnixMilli()) / 1000)
	m.files.Set(float64(s.Files))
	m.records.Set(float64(s.Records))
	m.left.Set(float64(s.Left))
}
