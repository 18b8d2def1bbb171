package pair

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Options of a Link. Zero fields of the second group take the defaults.
type Options struct {
	Name  string // of the other server, for people
	Conn  grpc.ClientConnInterface
	State string // the file with the mark

	Every   time.Duration // how often it says that there is nothing new; default 1 s
	Answer  time.Duration // how long the other server may take for a batch; default 5 s
	Alone   time.Duration // how long one that begins waits for an other one that cannot be reached; default 30 s
	Logger  *slog.Logger
	Metrics *Metrics
}

// mark is what the other server has: the records that came in up to a moment.
type mark struct {
	Until time.Time `json:"until"`
	Of    string    `json:"of"` // the identity of the other server's store
	// Whole is the moment up to which it gets copies, too: it, or its disk, is new, and what once came from there is gone.
	Whole time.Time `json:"whole,omitzero"`
	// Heard is when the other server said last that this one has all.
	Heard time.Time `json:"heard,omitzero"`
}

// Link is one server's side of a pair.
type Link struct {
	Options
	store *store.Store
	id    string

	mark   mark // but for Heard, of Run's goroutine
	saved  time.Time
	wake   chan struct{}
	missed uint64

	mu      sync.Mutex
	inStep  bool        // the other server has what is acknowledged here
	waiting []chan bool // those whose records are on the way; they are told whether the other server has them
	alive   time.Time   // when the other server answered last; at first when the link was made
	heard   time.Time
	whole   bool // the other server has said that this one has all
}

// New reads the mark; call Run.
func New(ctx context.Context, s *store.Store, o Options) (*Link, error) {
	o.Every, o.Answer, o.Alone = cmp.Or(o.Every, time.Second), cmp.Or(o.Answer, 5*time.Second), cmp.Or(o.Alone, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	l := &Link{Options: o, store: s, wake: make(chan struct{}, 1), alive: time.Now()}
	data, err := os.ReadFile(o.State)
	if err == nil {
		err = json.Unmarshal(data, &l.mark)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("audit pair: %s: %w; without the file the other server is sent all records again, and drops those that it has", o.State, err)
	}
	l.heard = l.mark.Heard
	if l.id, err = s.Identity(ctx); err != nil {
		return nil, err
	}
	s.Release(store.Pair, l.mark.Until)
	return l, nil
}

// Store implements ingest.Sink: the records are on this disk, and on the other server's if that is in step.
func (l *Link) Store(ctx context.Context, records []record.Record) error {
	if err := l.store.Store(ctx, records); err != nil {
		return err
	}
	l.wait(ctx, len(records))
	return nil
}

// waitAtMost bounds how long an acknowledgement waits for the other server. What is slower than Options.Answer ends the stream before.
const waitAtMost = 15 * time.Second

// wait returns when the other server has what is stored here, or is not in step.
func (l *Link) wait(ctx context.Context, records int) {
	l.mu.Lock()
	if !l.inStep {
		l.mu.Unlock()
		l.Metrics.alone.Add(float64(records))
		return
	}
	done := make(chan bool, 1)
	l.waiting = append(l.waiting, done)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it is awake, and looks again
	}
	late := time.NewTimer(waitAtMost)
	defer late.Stop()
	select {
	case has := <-done:
		if has {
			return
		}
	case <-ctx.Done():
	case <-late.C:
	}
	l.Metrics.alone.Add(float64(records))
}

// step says whether the other server is in step, and lets go who waits for it if not.
func (l *Link) step(in bool) (was bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was, l.inStep = l.inStep, in
	if in {
		l.Metrics.inStep.Set(1)
		return was
	}
	l.Metrics.inStep.Set(0)
	release(l.waiting, false)
	l.waiting = nil
	return was
}

// release lets go those that wait.
func release(all []chan bool, has bool) {
	for _, done := range all {
		done <- has
	}
}

// answered notes that the other server is there.
func (l *Link) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive = time.Now()
}

// Away is for how long the other server has not answered.
func (l *Link) Away() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.alive)
}

// Heard is when the other server said last that this one has all; the zero time where it never did.
func (l *Link) Heard() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

// hear notes that this server has all that the other one has.
func (l *Link) hear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard, l.whole = time.Now(), true
}

// Whole waits until each of the two has all that the other one has, or the other one cannot be reached for Options.Alone.
func (l *Link) Whole(ctx context.Context) error {
	l.Logger.Info("audit pair: waits for what the other server took in meanwhile", "other", l.Name)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if l.alike() {
				return nil
			}
			if l.Away() >= l.Alone {
				l.Logger.Warn("audit pair: the other server cannot be reached; this one serves alone, without what that one took in since it was heard of", "other", l.Name, "heard", l.Heard())
				return nil
			}
		}
	}
}

// alike says whether each has all that the other one has.
func (l *Link) alike() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole && l.inStep
}

// How long it waits before it connects anew: at first, and at most.
const (
	again       = 200 * time.Millisecond
	againAtMost = 5 * time.Second
)

// Run sends until ctx ends; that is nil.
func (l *Link) Run(ctx context.Context) error {
	defer l.step(false)
	pause := again
	for said := ""; ctx.Err() == nil; pause = min(2*pause, againAtMost) {
		err := l.stream(ctx)
		was := l.step(false)
		if was {
			pause = again
		}
		if ctx.Err() == nil && (was || said != err.Error()) {
			said = err.Error()
			l.Logger.Warn("audit pair: the other server is away; it gets what it lacks when it is back", "other", l.Name, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return l.save(time.Now())
}

// stream uses one stream as long as it lasts.
func (l *Link) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(l.Answer, cancel)
	defer late.Stop()
	to, err := ingest.OpenCopies(ctx, l.Conn)
	if err != nil {
		return err
	}
	if to.Store == l.id {
		return errors.New("the other server is this one: --pair names it twice")
	}
	l.meet(to.Store)
	l.answered()
	send := func(batch []record.Record) error {
		late.Reset(l.Answer)
		defer late.Reset(l.Every + l.Answer)
		if err := to.Send(batch); err != nil {
			return err
		}
		l.answered()
		l.Metrics.copied.Add(float64(len(batch)))
		return nil
	}
	if err := l.pass(ctx, send); err != nil {
		return err
	}
	// What was acknowledged before this is of the next pass at the latest, so that the other server is told the truth after it.
	l.step(true)
	l.Logger.Info("audit pair: in step", "other", l.Name)
	for {
		if err := l.pass(ctx, send); err != nil {
			return err
		}
		if err := send(nil); err != nil {
			return err
		}
		select {
		case <-l.wake:
		case <-time.After(l.Every):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// meet begins anew with a store that is not the one that was there before.
func (l *Link) meet(store string) {
	if store == l.mark.Of {
		return
	}
	if l.mark.Of != "" {
		l.Logger.Warn("audit pair: the other server's log is another one than before; it is sent all records", "other", l.Name)
	}
	l.mark.Of, l.mark.Until, l.mark.Whole = store, time.Time{}, time.Now().UTC()
}

// windowRecords is about how many records are sent before the mark is moved: those of one moment go together.
const windowRecords = 20_000

// pass sends what came in before it.
func (l *Link) pass(ctx context.Context, send func([]record.Record) error) (err error) {
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	defer func() { release(waiting, err == nil) }()
	seal, err := l.store.Seal(ctx, l.mark.Until)
	if err != nil {
		return err
	}
	for l.mark.Until.Before(seal) {
		to, rows, err := store.Window(ctx, l.store.DB(), l.mark.Until, seal, windowRecords)
		if err != nil {
			return err
		}
		if rows > 0 {
			if err := l.window(ctx, to, send); err != nil {
				return err
			}
		}
		l.mark.Until = to
		l.store.Release(store.Pair, to)
		if now := time.Now(); now.Sub(l.saved) >= l.Every {
			if err := l.save(now); err != nil {
				return err
			}
		}
	}
	if missed := l.store.Missed(store.Pair); missed > l.missed {
		l.Metrics.missed.Add(float64(missed - l.missed))
		l.Logger.Error("audit pair: records were deleted for their age before the other server had them", "other", l.Name, "records", missed-l.missed)
		l.missed = missed
	}
	return nil
}

// window sends the records that came in up to a moment.
func (l *Link) window(ctx context.Context, to time.Time, send func([]record.Record) error) error {
	var batch []record.Record
	came := store.Came{From: l.mark.Until, To: to, Originals: l.mark.Until.After(l.mark.Whole)}
	err := store.Each(ctx, l.store.DB(), came, func(r record.Record) error {
		if batch = append(batch, r); len(batch) < ingest.MaxBatch {
			return nil
		}
		defer func() { batch = batch[:0] }()
		return send(batch)
	})
	if err != nil || len(batch) == 0 {
		return err
	}
	return send(batch)
}

// save replaces the mark's file. What it lacks after a crash is sent again, and dropped there.
func (l *Link) save(now time.Time) error {
	l.saved, l.mark.Heard = now, l.Heard()
	data, err := json.Marshal(l.mark)
	if err != nil {
		return err
	}
	return durable.Replace(l.State, data)
}
