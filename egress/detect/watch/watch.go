package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/detect/send"
)

// Plan is what to look for.
type Plan struct {
	Rules    []*detect.Rule
	Settings detect.Settings
	Inputs   detect.Inputs
}

// Options of a watch.
type Options struct {
	Log detect.Log
	// Plan is asked before each pass, so that files may change. A plan with an error beside it is used all the same; without one the pass is left out.
	Plan   func(ctx context.Context) (*Plan, error)
	Every  time.Duration // between passes
	Window time.Duration // what is looked at: so long before now
	Repeat time.Duration // a finding that goes on is sent again after so long
	Least  detect.Severity
	Sinks  []send.Sink
	State  string // the file
	Logger *slog.Logger

	Found func(*detect.Report) // nil, or gets what each pass finds, all of it
	// Others, if set, says whether somebody else sends what is found (this one sends nothing then), and otherwise up to when somebody else did: what was
	// seen last before that counts as sent.
	Others  func() (send bool, until time.Time)
	Metrics *Metrics         // nil: none
	Now     func() time.Time // nil: the clock
}

// Bounds of a pass.
const (
	ruleWithin  = time.Minute
	restAtMost  = 10 * time.Second
	sendWithin  = 2 * time.Minute // for all that one sink gets
	perRule     = 50              // and namespace
	messageMost = 300
)

// watch is a running one.
type watch struct {
	Options
	state  *state
	sinks  []send.Sink
	warned map[string]bool // what was said in the last pass
}

// Run looks until ctx ends; that is nil.
func Run(ctx context.Context, o Options) error {
	w, err := start(o)
	if err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(w.Every):
		}
		w.pass(ctx)
	}
}

func start(o Options) (*watch, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	known, err := load(o.State)
	if err != nil {
		o.Logger.Error("detect: what was sent is not known, and may be sent again", "file", o.State, "err", err)
	}
	return &watch{Options: o, state: known, sinks: append([]send.Sink{lines{o.Logger, o.Metrics}}, o.Sinks...)}, nil
}

// pass looks once, and sends what is to be sent.
func (w *watch) pass(ctx context.Context) {
	said := map[string]bool{}
	defer func() { w.warned = said }()
	plan, err := w.Plan(ctx)
	if err != nil {
		w.warn(said, "detect: the rules", "err", err)
	}
	if plan == nil || ctx.Err() != nil {
		return
	}
	began, now := time.Now(), w.Now()
	window := detect.Window{Past: now.Add(-w.Window - detect.Usual), Since: now.Add(-w.Window), Until: now}
	report, err := detect.Run(ctx, w.Log, plan.Rules, window, detect.Options{
		Inputs: plan.Inputs, Settings: plan.Settings, Limit: perRule, Within: ruleWithin, Rest: rest,
	})
	if err != nil {
		return // the end
	}
	w.Metrics.passed(report, time.Since(began))
	if w.Found != nil {
		w.Found(report)
	}
	for _, note := range report.Failed {
		w.warn(said, "detect: a rule broke", "rule", note.Rule, "file", note.File, "err", note.Why)
	}
	for _, id := range report.More {
		w.warn(said, "detect: a rule finds more than is looked at; tune it", "rule", id, "findings", perRule)
	}
	findings := slices.DeleteFunc(slices.Clone(report.Findings), func(f detect.Finding) bool { return f.Severity < w.Least })
	var all sync.WaitGroup
	errs := make([]error, len(w.sinks))
	for i, sink := range w.sinks {
		all.Go(func() { errs[i] = w.deliver(ctx, sink, findings, now) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		w.warn(said, "detect: findings could not be sent, and are tried again", "err", err)
	}
	if err := w.state.forget(now.Add(-max(w.Repeat, w.Window)), findings); err != nil {
		w.warn(said, "detect: what was sent could not be written down", "file", w.State, "err", err)
	}
}

// warn says something, but not what the last pass said as well.
func (w *watch) warn(said map[string]bool, message string, args ...any) {
	key := message + fmt.Sprint(args...)
	if said[key] = true; !w.warned[key] {
		w.Logger.Warn(message, args...)
	}
}

// deliver sends a sink what it does not have, or has to have again.
func (w *watch) deliver(ctx context.Context, sink send.Sink, findings []detect.Finding, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, sendWithin)
	defer cancel()
	due := slices.DeleteFunc(slices.Clone(findings), func(f detect.Finding) bool { return !w.state.due(sink.Name(), &f, now, w.Repeat) })
	if w.Others != nil {
		others, until := w.Others()
		if others {
			return nil
		}
		sent := func(f detect.Finding) bool { return f.Last.Before(until) }
		if err := w.state.keep(sink.Name(), slices.DeleteFunc(slices.Clone(due), func(f detect.Finding) bool { return !sent(f) }), now); err != nil {
			return fmt.Errorf("what another server sent to %s could not be written down: %w", sink.Name(), err)
		}
		due = slices.DeleteFunc(due, sent)
	}
	for batch := range slices.Chunk(due, send.MaxBatch) {
		err := sink.Send(ctx, batch)
		w.Metrics.sent(sink.Name(), len(batch), err)
		if err != nil {
			return err
		}
		if err := w.state.keep(sink.Name(), batch, now); err != nil {
			return fmt.Errorf("%s has them, but that could not be written down: %w", sink.Name(), err)
		}
	}
	return nil
}

// rest leaves the log to others for as long as a rule took.
func rest(ctx context.Context, took time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(min(took, restAtMost)):
	}
}

// lines is a sink that writes findings into the process's own log, and counts those that are new.
type lines struct {
	log     *slog.Logger
	metrics *Metrics
}

// Name implements send.Sink.
func (lines) Name() string { return "log" }

// Send implements send.Sink.
func (l lines) Send(_ context.Context, findings []detect.Finding) error {
	for i := range findings {
		f := &findings[i]
		l.metrics.found(f)
		l.log.Warn("finding", "detection", f.Detection, "severity", f.Severity.String(), "workload", f.Who(), "host", brief(f.Host), "count", f.Count, "id", f.ID)
	}
	return nil
}

func brief(text string) string {
	if len(text) <= messageMost {
		return text
	}
	return strings.ToValidUTF8(text[:messageMost], "") + "…"
}
