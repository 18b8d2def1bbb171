package supervise

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what to run.
type Config struct {
	Log    *slog.Logger
	Path   string   // of the binary
	Args   []string // after the binary's name
	Output io.Writer

	Admin     string        // HOST:PORT of Envoy's admin interface; "" means no draining
	DrainTime time.Duration // at most this long for connections to end
	MinDrain  time.Duration // at least this long before the end, even without connections
	Elsewhere func() bool   // another process takes what is new: while it drains, Envoy stops listening; nil: nobody does
	Linger    time.Duration // between draining and SIGTERM, for what the child sends out with a delay
	KillAfter time.Duration // from SIGTERM to SIGKILL; 0 for 5 s

	OnCrash func()                // it ended unexpectedly; nil: nobody cares
	OnCut   func(connections int) // the drain time was over with so many open; nil: nobody cares

	EasyHeap  int64         // bytes of its heap above which it gives free memory back when it is asked; 0: it is not asked
	LookEvery time.Duration // between looks at that; 0 for 10 s

	MinBackoff, MaxBackoff time.Duration // between restarts; 0 for 100 ms and 10 s
	Settled                time.Duration // how long a child must live to be started again at once; 0 for 5 s
}

// steady is how long a child must live for its restarts to begin quickly again.
const steady = time.Minute

// Supervisor runs one child at a time.
type Supervisor struct {
	cfg      Config
	restarts atomic.Uint64
	pid      atomic.Int64
}

// New fills in the defaults.
func New(cfg Config) *Supervisor {
	if cfg.KillAfter == 0 {
		cfg.KillAfter = 5 * time.Second
	}
	if cfg.MinBackoff == 0 {
		cfg.MinBackoff = 100 * time.Millisecond
	}
	if cfg.Settled == 0 {
		cfg.Settled = 5 * time.Second
	}
	if cfg.MaxBackoff == 0 {
		cfg.MaxBackoff = 10 * time.Second
	}
	if cfg.LookEvery == 0 {
		cfg.LookEvery = 10 * time.Second
	}
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	return &Supervisor{cfg: cfg}
}

// Restarts counts the unexpected ends so far.
func (s *Supervisor) Restarts() uint64 { return s.restarts.Load() }

// PID is the running child's, or 0.
func (s *Supervisor) PID() int { return int(s.pid.Load()) }

// Run keeps the child running until ctx ends, then drains and ends it. It returns an error only if the child cannot
// be started at all, or could not be ended.
func (s *Supervisor) Run(ctx context.Context) error {
	wait, atOnce := s.cfg.MinBackoff, false
	for first := true; ; first = false {
		began := time.Now()
		c, err := s.start()
		if atOnce { // its successor came first, for which everybody waits
			s.crashed()
			atOnce = false
		}
		switch {
		case err != nil && first:
			return fmt.Errorf("envoy: %w", err)
		case err != nil:
			s.cfg.Log.Error("Envoy cannot be started again", "err", err, "retry_in", wait)
		default:
			if s.attend(ctx, c) {
				return s.end(c)
			}
			s.restarts.Add(1)
			if time.Since(began) >= steady {
				wait = s.cfg.MinBackoff
			}
			in := wait
			if atOnce = time.Since(began) >= s.cfg.Settled; atOnce {
				in = 0
			}
			s.cfg.Log.Error("Envoy ended unexpectedly", "reason", reason(c.err), "lived", time.Since(began).Round(time.Millisecond), "restart_in", in)
			if atOnce {
				continue
			}
			s.crashed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, s.cfg.MaxBackoff)
	}
}

// crashed tells of an unexpected end.
func (s *Supervisor) crashed() {
	if s.cfg.OnCrash != nil {
		s.cfg.OnCrash()
	}
}

// attend waits for the child's end or ctx's, and tells whether it was ctx's.
func (s *Supervisor) attend(ctx context.Context, c *child) bool {
	if s.cfg.Admin != "" && s.cfg.EasyHeap > 0 {
		beside, stop := context.WithCancel(ctx)
		var looking sync.WaitGroup
		looking.Go(func() { s.giveBack(beside) })
		defer looking.Wait()
		defer stop()
	}
	select {
	case <-c.done:
		return false
	case <-ctx.Done():
		return true
	}
}

// end drains the child and terminates it.
func (s *Supervisor) end(c *child) error {
	if s.cfg.Admin != "" && s.cfg.DrainTime > 0 {
		s.drain(c)
		s.endSessions()
	}
	select { // what it has buffered dies with it
	case <-time.After(s.cfg.Linger):
	case <-c.done:
	}
	c.terminate()
	select {
	case <-c.done:
	case <-time.After(s.cfg.KillAfter):
		s.cfg.Log.Warn("Envoy does not end; it is killed", "after", s.cfg.KillAfter)
		c.kill()
		<-c.done
	}
	s.cfg.Log.Info("Envoy has ended", "reason", reason(c.err))
	return nil
}

func reason(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}
