package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/detect/send"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// log answers each SELECT with rows: a workload, a host, and when it was seen last.
type log struct {
	rows []row
	err  error
}

type row struct {
	host string
	last time.Time
}

// SQL implements detect.Log.
func (l *log) SQL(_ context.Context, _ string, sink query.RowSink) error {
	if l.err != nil {
		return l.err
	}
	if err := sink.Columns([]string{"namespace", "workload", "host", "first", "last", "count"}); err != nil {
		return err
	}
	for _, r := range l.rows {
		at := r.last.Format(time.RFC3339Nano)
		if err := sink.Row([]any{"shop", "cart", r.host, at, at, int64(1)}); err != nil {
			return err
		}
	}
	return nil
}

// box is a sink that keeps what it gets, or fails.
type box struct {
	name string
	mu   sync.Mutex
	got  []string
	err  error
}

// Name implements send.Sink.
func (b *box) Name() string { return b.name }

// Send implements send.Sink.
func (b *box) Send(_ context.Context, findings []detect.Finding) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	for _, f := range findings {
		b.got = append(b.got, f.Host)
	}
	return nil
}

func (b *box) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.got = nil }()
	return strings.Join(b.got, " ")
}

var epoch = time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)

// scene is a watch whose clock stands.
type scene struct {
	log     log
	now     time.Time
	said    bytes.Buffer
	options Options
}

func newScene(t *testing.T, sinks ...send.Sink) *scene {
	t.Helper()
	rule, err := detect.Parse("mine.sql", "-- id: mine\n-- title: T\n-- severity: low\n-- finds: F\nSELECT 1")
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{now: epoch}
	s.options = Options{
		Log: &s.log, Plan: func(context.Context) (*Plan, error) { return &Plan{Rules: []*detect.Rule{rule}}, nil },
		Every: time.Minute, Window: 24 * time.Hour, Repeat: 4 * time.Hour, Least: detect.Low, Sinks: sinks,
		State: filepath.Join(t.TempDir(), "findings.json"), Logger: slog.New(slog.NewTextHandler(&s.said, nil)), Metrics: NewMetrics(), Now: func() time.Time { return s.now },
	}
	return s
}

// process is a watch as a process of its own has it: it knows what is on disk.
func (s *scene) process(t *testing.T) *watch {
	t.Helper()
	w, err := start(s.options)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestOnce: a finding is sent once; again when it goes on, no more often than asked; and a new process knows what another has sent.
func TestOnce(t *testing.T) {
	to := &box{name: "box"}
	s := newScene(t, to)
	w := s.process(t)
	step := func(what string, after time.Duration, want string, rows ...row) {
		t.Helper()
		s.now, s.log.rows = s.now.Add(after), rows
		w.pass(t.Context())
		if got := to.take(); got != want {
			t.Errorf("%s: sent %q, want %q", what, got, want)
		}
	}
	step("new", 0, "a.test", row{"a.test", epoch})
	step("the same", time.Minute, "", row{"a.test", epoch})
	step("goes on", time.Hour, "", row{"a.test", epoch.Add(time.Hour)})
	step("another", time.Minute, "b.test", row{"a.test", epoch.Add(time.Hour)}, row{"b.test", epoch})
	step("goes on for long", 4*time.Hour, "a.test", row{"a.test", epoch.Add(5 * time.Hour)}, row{"b.test", epoch})
	w = s.process(t)
	step("after a restart", time.Minute, "", row{"a.test", epoch.Add(5 * time.Hour)}, row{"b.test", epoch})
	step("gone for long", 30*time.Hour, "")
	if len(w.state.sent) != 0 {
		t.Errorf("it is remembered for ever: %v", w.state.sent)
	}
	step("back", time.Minute, "a.test", row{"a.test", s.now})
	if n := testutil.ToFloat64(s.options.Metrics.findings.WithLabelValues("mine", "low")); n != 4 {
		t.Errorf("%v findings are counted", n)
	}
	if n := testutil.ToFloat64(s.options.Metrics.sends.WithLabelValues("box", "taken")); n != 4 {
		t.Errorf("%v were sent", n)
	}
}

// TestSinksAreApart: one that is down costs the others nothing, and gets later what it missed.
func TestSinksAreApart(t *testing.T) {
	good, bad := &box{name: "good"}, &box{name: "bad", err: errors.New("it is away")}
	s := newScene(t, good, bad)
	w := s.process(t)
	s.log.rows = []row{{"a.test", epoch}}
	for range 3 {
		w.pass(t.Context())
	}
	if got := good.take(); got != "a.test" {
		t.Errorf("good: %q", got)
	}
	if n := strings.Count(s.said.String(), "it is away"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.said.String())
	}
	w = s.process(t)
	bad.err = nil
	w.pass(t.Context())
	if g, b := good.take(), bad.take(); g != "" || b != "a.test" {
		t.Errorf("good %q, bad %q", g, b)
	}
}

// TestFullDisk: what cannot be written down is sent once all the same, as long as the process lives; afterwards once more.
func TestFullDisk(t *testing.T) {
	to := &box{name: "box"}
	s := newScene(t, to)
	s.options.State = filepath.Join(t.TempDir(), "none", "findings.json")
	w := s.process(t)
	s.log.rows = []row{{"a.test", epoch}}
	w.pass(t.Context())
	w.pass(t.Context())
	if got := to.take(); got != "a.test" || !strings.Contains(s.said.String(), "could not be written down") {
		t.Errorf("%q\n%s", got, s.said.String())
	}
	s.process(t).pass(t.Context())
	if got := to.take(); got != "a.test" {
		t.Errorf("%q", got)
	}
}

// TestBrokenState: a file that is none is said, and replaced.
func TestBrokenState(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{"box":null}`, `{"box":{"x":1}}`, "\x00\x00"} {
		to := &box{name: "box"}
		s := newScene(t, to)
		if err := os.WriteFile(s.options.State, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.log.rows = []row{{"a.test", epoch}}
		s.process(t).pass(t.Context())
		s.process(t).pass(t.Context())
		if got := to.take(); got != "a.test" || text != `{"box":null}` && !strings.Contains(s.said.String(), "may be sent again") {
			t.Errorf("%q: %q\n%s", text, got, s.said.String())
		}
	}
}

// TestBounded: so much is remembered of a sink, and no more; batches have their size.
func TestBounded(t *testing.T) {
	known, err := load(filepath.Join(t.TempDir(), "findings.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var many []detect.Finding
		for j := range 5000 {
			many = append(many, detect.Finding{ID: fmt.Sprint(i, "-", j)})
		}
		if err := known.keep("box", many, epoch.Add(time.Duration(i)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(known.sent["box"]); n != maxEntries {
		t.Errorf("%d entries", n)
	}
	if err := known.keep("box", []detect.Finding{{ID: "neighbour", Namespace: "shop"}}, epoch.Add(-time.Hour)); err != nil || known.due("box", &detect.Finding{ID: "neighbour"}, epoch, time.Hour) {
		t.Errorf("one namespace pushes out another's: %v", err)
	}
	if !known.due("box", &detect.Finding{ID: "0-1"}, epoch, time.Hour) || known.due("box", &detect.Finding{ID: "2-1"}, epoch, time.Hour) {
		t.Error("the newest went first")
	}
}

// TestTrouble: rules that broke and plans that cannot be read are said once, and end nothing.
func TestTrouble(t *testing.T) {
	to := &box{name: "box"}
	s := newScene(t, to)
	w := s.process(t)
	s.log.err = errors.New("DuckDB is tired")
	w.pass(t.Context())
	w.pass(t.Context())
	if n := strings.Count(s.said.String(), "DuckDB is tired"); n != 1 || testutil.ToFloat64(s.options.Metrics.broken) != 1 {
		t.Errorf("said %d times:\n%s", n, s.said.String())
	}
	s.log.err, s.log.rows = nil, []row{{"a.test\x1b[31m\n", epoch}}
	plan := w.Plan
	w.Plan = func(ctx context.Context) (*Plan, error) {
		p, _ := plan(ctx)
		return p, errors.New("one file is wrong")
	}
	w.pass(t.Context())
	if got := to.take(); got == "" || !strings.Contains(s.said.String(), "one file is wrong") {
		t.Errorf("%q\n%s", got, s.said.String())
	}
	if strings.Contains(s.said.String(), "\x1b") {
		t.Error("escape codes in the log")
	}
	w.Plan = func(context.Context) (*Plan, error) { return nil, errors.New("there is no folder") }
	w.pass(t.Context())
	w.Least = detect.Medium
	w.Plan = plan
	s.log.rows = []row{{"b.test", epoch}}
	w.pass(t.Context())
	if got := to.take(); got != "" {
		t.Errorf("less than asked is sent: %q", got)
	}
}

// TestRun: passes come at their times, one after the other, until the end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &box{name: "box"}
		s := newScene(t, to)
		s.log.rows = []row{{"a.test", epoch}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, s.options) }()
		time.Sleep(59 * time.Second) // of the bubble's time
		synctest.Wait()
		if got := to.take(); got != "" {
			t.Errorf("too early: %q", got)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := to.take(); got != "a.test" || testutil.ToFloat64(s.options.Metrics.passes) != 10 {
			t.Errorf("%q, %v passes", got, testutil.ToFloat64(s.options.Metrics.passes))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestOthersSend: while another server sends, this one does not; when it takes over it sends what the other one can have missed, and nothing of before.
func TestOthersSend(t *testing.T) {
	to := &box{name: "box"}
	s := newScene(t, to)
	others, until := true, time.Time{}
	s.options.Others = func() (bool, time.Time) { return others, until }
	w := s.process(t)
	s.log.rows = []row{{"old.test", epoch}, {"missed.test", epoch.Add(time.Hour)}}
	s.now = epoch.Add(2 * time.Hour)
	w.pass(t.Context())
	if got := to.take(); got != "" {
		t.Errorf("sent %q beside another server", got)
	}
	others, until = false, epoch.Add(30*time.Minute)
	for range 2 {
		w.pass(t.Context())
	}
	if got := to.take(); got != "missed.test" {
		t.Errorf("sent %q when it took over, want missed.test", got)
	}
}
