// Package sink passes the records that come into a store on to others, each at least once.
//
// In: a store.Store, and a Send that brings records elsewhere. The store itself is the queue: what came in after a mark is sent, and the
// mark, in a file, goes on when it was taken. So ingest never waits for a receiver, a process that is killed sends some records twice (their
// ids tell), and what the store deletes before it was sent is told as a gap.
package sink

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Options of a Sink. Zero fields of the second group take the defaults.
type Options struct {
	Name  string // among store.Options.Held
	Store *store.Store
	Send  func(context.Context, []record.Record) error
	State string // the file with the mark
	// Settle, if set, is nil when the receiver has taken all that Send was given since it was called last: the mark waits for it. Waits says whether it would have to wait.
	Settle func(context.Context) error
	Waits  func() bool
	// Unfit, if set, is how many records the receiver will never have, since it was called last: it was told of them as missing, or refused them for good.
	Unfit func() uint64

	Batch   int           // records that are sent at once; default 500
	Every   time.Duration // how often it looks for what came in; default 1 s
	Pause   time.Duration // the longest pause before what failed is sent again; default 1 min
	Logger  *slog.Logger
	Metrics *Metrics
}

// mark is what was taken: the records that came in up to a moment, and which gaps were told.
type mark struct {
	Until time.Time `json:"until"`
	Epoch uint64    `json:"epoch"` // when the mark was made, in Unix nanoseconds: with their numbers it tells gaps apart
	Gaps  uint64    `json:"gaps"`  // those told so far
}

// Sink passes records on.
type Sink struct {
	Options
	mark mark
	told uint64 // of store.Missed, since the store was opened
}

// New reads the mark; call Run.
func New(o Options) (*Sink, error) {
	o.Batch, o.Every, o.Pause = cmp.Or(o.Batch, 500), cmp.Or(o.Every, time.Second), cmp.Or(o.Pause, time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.Settle == nil {
		o.Settle, o.Waits = func(context.Context) error { return nil }, func() bool { return false }
	}
	if o.Unfit == nil {
		o.Unfit = func() uint64 { return 0 }
	}
	s := &Sink{Options: o}
	data, err := os.ReadFile(o.State)
	if err == nil {
		err = json.Unmarshal(data, &s.mark)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("audit sink: %w", err)
	}
	if s.mark.Epoch == 0 {
		s.mark.Epoch = uint64(time.Now().UnixNano())
	}
	o.Store.Release(o.Name, s.mark.Until)
	return s, nil
}

// Run works until ctx ends. What is not taken is sent again for ever, after longer and longer pauses.
func (s *Sink) Run(ctx context.Context) error {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = s.Pause
	for ctx.Err() == nil {
		pause := s.Every
		if err := s.Pass(ctx); err == nil {
			pauses.Reset()
		} else if ctx.Err() == nil {
			pause = min(pauses.NextBackOff(), s.Pause)
			s.Metrics.failures.WithLabelValues(s.kind()).Inc()
			s.Logger.Error("audit sink: records wait in the store", "to", s.Name, "err", err, "again in", pause.Round(time.Millisecond).String())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// kind is the name up to "=", for metrics.
func (s *Sink) kind() string {
	kind, _, _ := strings.Cut(s.Name, "=")
	return kind
}

// windowRecords is about how many records are taken before the mark is moved: those of one moment go together. settleRecords is how many may wait for a receiver that
// says later that it has taken them; they are not in memory, but sent again when it does not.
const (
	windowRecords = 2_000
	settleRecords = 100_000
)

// Pass sends what came in before it.
func (s *Sink) Pass(ctx context.Context) error {
	seal, err := s.Store.Seal(ctx, s.mark.Until)
	if err != nil {
		return err
	}
	for at, sent := s.mark.Until, int64(0); at.Before(seal); {
		if err := s.gap(ctx); err != nil {
			return err
		}
		to, rows, err := store.Window(ctx, s.Store.DB(), at, seal, windowRecords)
		if err != nil {
			return err
		}
		if rows > 0 {
			if err := s.window(ctx, at, to); err != nil {
				return err
			}
		}
		at, sent = to, sent+rows
		if s.Waits() && sent < settleRecords && at.Before(seal) {
			continue
		}
		if err := s.settle(ctx, at, sent); err != nil {
			return err
		}
		sent = 0
	}
	return nil
}

// settle moves the mark to a moment, when the receiver has taken what was sent.
func (s *Sink) settle(ctx context.Context, to time.Time, sent int64) error {
	if err := s.Settle(ctx); err != nil {
		return err
	}
	s.mark.Until = to
	if sent > 0 {
		if err := s.save(); err != nil {
			return err
		}
		unfit := min(int64(s.Unfit()), sent) // the tries that failed count, too
		s.Metrics.sent.WithLabelValues(s.kind()).Add(float64(sent - unfit))
		s.Metrics.missed.WithLabelValues(s.kind()).Add(float64(unfit))
	}
	s.Store.Release(s.Name, to)
	return nil
}

// window sends the records that came in after a moment, up to another one.
func (s *Sink) window(ctx context.Context, from, to time.Time) error {
	batch := make([]record.Record, 0, s.Batch)
	send := func() error {
		if len(batch) == 0 {
			return nil
		}
		if err := s.Send(ctx, batch); err != nil {
			return err
		}
		batch = batch[:0]
		return nil
	}
	err := store.Each(ctx, s.Store.DB(), store.Came{From: from, To: to}, func(r record.Record) error {
		if batch = append(batch, r); len(batch) < s.Batch {
			return nil
		}
		return send()
	})
	if err != nil {
		return err
	}
	return send()
}

// gap tells of records that were deleted for their age before they were sent.
func (s *Sink) gap(ctx context.Context) error {
	missed := s.Store.Missed(s.Name)
	if missed <= s.told {
		return nil
	}
	now := time.Now().UTC()
	r := record.Record{
		Proxy: "sallyport-audit", Epoch: s.mark.Epoch, Seq: s.mark.Gaps + 1, Time: now, Class: record.Gap, Count: missed - s.told,
		Reason: "deleted for their age before the receiver had taken them",
	}
	if err := s.Send(ctx, []record.Record{r}); err != nil {
		return err
	}
	if err := s.Settle(ctx); err != nil {
		return err
	}
	s.told, s.mark.Gaps = missed, r.Seq
	s.Metrics.missed.WithLabelValues(s.kind()).Add(float64(r.Count))
	return s.save()
}

// save replaces the mark's file, so that it is the old one or the new one whenever the machine stops.
func (s *Sink) save() error {
	data, err := json.Marshal(s.mark)
	if err != nil {
		return err
	}
	return durable.Replace(s.State, data)
}

// Metrics of sinks; register them where they are served.
type Metrics struct{ sent, failures, missed *prometheus.CounterVec }

// NewMetrics makes metrics that nobody sees yet.
func NewMetrics() *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sallyport_audit_send_" + name, Help: help}, []string{"to"})
	}
	return &Metrics{
		sent:     counter("records_total", "Records that a receiver took, by its kind."),
		failures: counter("failures_total", "Tries that failed."),
		missed:   counter("missed_records_total", "Records that the receiver was told of as missing: deleted for their age before they were sent, or larger than what it takes; or that it refused for good."),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, c) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, x := range []prometheus.Collector{m.sent, m.failures, m.missed} {
		x.Collect(c)
	}
}
