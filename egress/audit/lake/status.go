package lake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// statusFile, beside the state, is for those who ask how far the writer is.
const statusFile = "lake-status.json"

// Status is how far a writer is.
type Status struct {
	Lake    string    `json:"lake"`
	Writer  string    `json:"writer"`
	Until   time.Time `json:"until"`   // up to which moment of coming in the lake has records
	Waiting int64     `json:"waiting"` // records in the store that it has not
	Missed  uint64    `json:"missed"`  // records that were deleted before it had them, since the server began
	Files   int       `json:"files"`
	Records int64     `json:"records"`
	Bytes   int64     `json:"bytes"`
	Tried   time.Time `json:"tried"`
	Failing string    `json:"failing,omitempty"` // why the last try failed
}

// ReadStatus reads what the writer of a store's folder wrote last.
func ReadStatus(dir string) (s Status, err error) {
	data, err := os.ReadFile(filepath.Join(dir, statusFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("audit lake: nothing was brought to a lake from %s yet: start the audit server with --lake", dir)
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("audit lake: %w", err)
	}
	return s, nil
}

// ReadStatuses reads from a lake how far its writers are.
func ReadStatuses(ctx context.Context, p place.Place) (all []Status, err error) {
	logs, err := content.ReadAll(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("audit lake: %w", err)
	}
	for _, c := range logs {
		s := Status{Lake: p.String(), Writer: c.Writer, Until: c.Until, Tried: c.Time}
		s.count(c)
		all = append(all, s)
	}
	return all, nil
}

func (s *Status) count(c *content.Contents) {
	s.Files, s.Records, s.Bytes = len(c.Files), 0, 0
	for i := range c.Files {
		s.Records, s.Bytes = s.Records+c.Files[i].Records, s.Bytes+c.Files[i].Bytes
	}
}

// tell says how a pass went, to those who ask and in metrics.
func (w *Writer) tell(ctx context.Context, failed error) {
	s := &w.status
	s.Tried, s.Failing, s.Missed = w.Now().UTC(), "", w.Store.Missed(Holder)
	if failed != nil {
		s.Failing = failed.Error()
	}
	if w.contents != nil {
		s.count(w.contents)
	}
	if n, err := w.waiting(ctx); err == nil {
		s.Waiting = n
	}
	w.Metrics.told(s)
	if err := writeJSON(filepath.Join(w.Dir, statusFile), s); err != nil {
		w.Logger.Warn("audit lake: the status is not written", "err", err)
	}
}

// Metrics of a writer; register them where they are served.
type Metrics struct {
	until, waiting, missed, failing prometheus.Gauge
	failures                        prometheus.Counter
	records, bytes                  prometheus.Counter
	files                           *prometheus.CounterVec
}

// NewMetrics makes metrics that nobody sees yet.
func NewMetrics() *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_audit_lake_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "sallyport_audit_lake_" + name, Help: help})
	}
	return &Metrics{
		until:    gauge("until_seconds", "Up to when the lake has what came in, in Unix seconds."),
		waiting:  gauge("waiting_records", "Records in the store that the lake did not have after the last try."),
		missed:   gauge("missed_records", "Records that were deleted for their age before the lake had them, since the start."),
		failing:  gauge("failing", "1 when the last try failed."),
		failures: counter("failures_total", "Tries that failed."),
		records:  counter("records_total", "Records that were brought to the lake."),
		bytes:    counter("bytes_total", "Bytes of the files that were written."),
		files:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_audit_lake_files_total", Help: "Files, by what became of them: written, or compacted into others."}, []string{"what"}),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, c) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, x := range []prometheus.Collector{m.until, m.waiting, m.missed, m.failing, m.failures, m.records, m.bytes, m.files} {
		x.Collect(c)
	}
}

func (m *Metrics) did(p *plan, step *content.Commit) {
	for i := range step.Add {
		m.bytes.Add(float64(step.Add[i].Bytes))
		if len(p.Inputs) == 0 {
			m.records.Add(float64(step.Add[i].Records))
		}
	}
	m.files.WithLabelValues("written").Add(float64(len(step.Add)))
	m.files.WithLabelValues("compacted").Add(float64(len(step.Remove)))
}

func (m *Metrics) told(s *Status) {
	m.until.Set(float64(s.Until.UnixMilli()) / 1000)
	m.waiting.Set(float64(s.Waiting))
	m.missed.Set(float64(s.Missed))
	m.failing.Set(0)
	if s.Failing != "" {
		m.failing.Set(1)
		m.failures.Inc()
	}
}
