package enforce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
	"github.com/sallyport/sallyport/sidecar/nodeguard/kernel"
)

// Source is where views come from.
type Source interface {
	// Synced waits until the view is complete for the first time.
	Synced(ctx context.Context) error
	// Changed has an element when the view may have changed.
	Changed() <-chan struct{}
	View() nodeguard.View
}

// Kernel holds a plan. Every method may be repeated.
type Kernel interface {
	Replace(p nodeguard.Plan) error
	Change(changes []nodeguard.Change) error
	// Differs says where the kernel does not hold the plan, "" if it does.
	Differs(p nodeguard.Plan) (string, error)
	Counts() (kernel.Counts, error)
}

// Timing is how long things wait.
type Timing struct {
	Settle time.Duration // after a change, for those that come with it
	Check  time.Duration // between looks at whether the kernel still holds the plan
	Retry  time.Duration // after a failure
}

// DefaultTiming is what a node gets.
var DefaultTiming = Timing{Settle: 20 * time.Millisecond, Check: 10 * time.Second, Retry: time.Second}

// Guard is the loop.
type Guard struct {
	options nodeguard.Options
	source  Source
	log     *slog.Logger
	timing  Timing

	// writing guards the kernel, which takes one call at a time.
	writing sync.Mutex
	kernel  Kernel

	mu      sync.Mutex
	plan    *nodeguard.Plan // what the kernel holds, nil before the first was written
	problem error           // why the kernel does not hold the latest
	repairs int             // how often others had changed the table
	metrics metrics
}

// New makes a guard.
func New(o nodeguard.Options, source Source, k Kernel, timing Timing, log *slog.Logger) *Guard {
	return &Guard{options: o, source: source, kernel: k, timing: timing, log: log, metrics: newMetrics()}
}

// Run keeps the kernel in agreement until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	g.problemIs(errors.New("the API server has not given everything yet"))
	if err := g.source.Synced(ctx); err != nil {
		return nil // it is ctx that ended
	}
	check := time.NewTicker(g.timing.Check)
	defer check.Stop()
	for {
		wait := g.source.Changed()
		var retry <-chan time.Time
		if err := g.step(); err != nil {
			g.fail(err)
			retry = time.After(g.timing.Retry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wait:
			select {
			case <-time.After(g.timing.Settle):
			case <-ctx.Done():
				return nil
			}
		case <-retry:
		case <-check.C:
			g.check()
		}
	}
}

// step brings the kernel to the latest view.
func (g *Guard) step() error {
	want, err := nodeguard.Build(g.options, g.source.View())
	if err != nil {
		return err
	}
	g.mu.Lock()
	have := g.plan
	g.mu.Unlock()
	if have == nil {
		return g.replace(want)
	}
	changes := nodeguard.Diff(*have, want)
	if len(changes) > 0 {
		g.writing.Lock()
		err = g.kernel.Change(changes)
		g.writing.Unlock()
		if err != nil {
			g.log.Warn("the table is not as it was left, so it is written anew", "error", err)
			return g.replace(want)
		}
	}
	g.holds(want, len(changes) > 0)
	return nil
}

func (g *Guard) replace(want nodeguard.Plan) error {
	g.writing.Lock()
	err := g.kernel.Replace(want)
	g.writing.Unlock()
	if err != nil {
		g.mu.Lock()
		g.plan = nil // unknown
		g.mu.Unlock()
	}
	if errors.Is(err, kernel.ErrNoLogging) && !g.options.NoLog {
		g.log.Warn("without samples of what is refused; the counters have all of it", "error", err)
		g.options.NoLog = true
		return g.step()
	}
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	g.holds(want, true)
	return nil
}

// check has the table written again where it was tampered with.
func (g *Guard) check() {
	g.mu.Lock()
	have := g.plan
	g.mu.Unlock()
	if have == nil {
		return
	}
	g.writing.Lock()
	why, err := g.kernel.Differs(*have)
	g.writing.Unlock()
	if why == "" && err == nil {
		return
	}
	g.log.Warn("somebody changed the guard's table; it is written again", "found", why, "error", err)
	g.mu.Lock()
	g.plan = nil
	g.repairs++
	g.mu.Unlock()
}

// holds notes what the kernel holds.
func (g *Guard) holds(p nodeguard.Plan, changed bool) {
	g.mu.Lock()
	g.plan = &p
	g.mu.Unlock()
	g.problemIs(nil)
	if changed {
		g.log.Debug("the kernel holds the plan", "guarded", p.Guarded(), "open", p.Open())
	}
}

// fail says what is wrong, once.
func (g *Guard) fail(err error) {
	if news := g.problemIs(err); news {
		g.log.Error("the rules are not up to date; what the kernel holds stays", "error", err)
	}
}

// problemIs notes what is wrong, and tells whether that is news.
func (g *Guard) problemIs(problem error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.problem
	g.problem = problem
	return fmt.Sprint(before) != fmt.Sprint(problem)
}

// Ready says why the kernel does not hold the plan of the latest view; nil if it does.
func (g *Guard) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.problem != nil:
		return g.problem
	case g.plan == nil:
		return errors.New("the table is not written yet")
	default:
		return nil
	}
}
