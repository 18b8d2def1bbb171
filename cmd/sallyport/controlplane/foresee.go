package controlplane

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const (
	foreseenOf     = time.Hour              // what was asked for so long is asked again
	foreseeWithin  = 300 * time.Millisecond // who writes an object waits so long
	foreseeReading = 10 * time.Second       // the log may take so long, for those who ask next
	foreseeFresh   = 30 * time.Second       // what it said is good for so long
	foreseeRoom    = 200                    // bytes of a warning, which has 256 with what follows
)

// foresight says what an object that is about to be written would newly deny and allow, of what the log has seen lately. Nobody waits for
// it longer than foreseeWithin; then nothing is said.
type foresight struct {
	plane  *plane
	recent recently
	busy   chan struct{} // holds one: who asks
	took   *prometheus.HistogramVec
}

// What became of a question.
const (
	foreseenSaid    = "said"    // there is something to warn of
	foreseenNothing = "nothing" // nothing would change
	foreseenUnknown = "unknown" // nobody knows in time
)

func newForesight(p *plane, log *grpc.ClientConn) *foresight {
	f := &foresight{plane: p, busy: make(chan struct{}, 1), took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sallyport_foresight_seconds", Help: "Questions of what an object would newly deny and allow, when it is written, by what became of them.",
		Buckets: []float64{.005, .025, .1, .2, .3, .5},
	}, []string{"result"})}
	f.recent.ask = func(ctx context.Context, namespaces []string) ([]inputs.Input, error) {
		return query.RecentInputsOf(ctx, log, query.RecentQuestion{Within: foreseenOf, Namespaces: namespaces})
	}
	for _, result := range []string{foreseenSaid, foreseenNothing, foreseenUnknown} {
		f.took.WithLabelValues(result)
	}
	p.metrics.MustRegister(f.took)
	return f
}

// foresees tells the kinds that are asked about.
func foresees(k config.Kind) bool {
	return k == config.KindEgressPolicy || k == config.KindServiceEntry || k == config.KindSidecar
}

// of warns of what an object would do.
func (f *foresight) of(ctx context.Context, o config.Object) []admission.Finding {
	if !foresees(o.Kind) {
		return nil
	}
	began, result := time.Now(), foreseenNothing
	ctx, cancel := context.WithTimeout(ctx, foreseeWithin)
	defer cancel()
	sentences, err := f.look(ctx, &o)
	switch {
	case err != nil:
		result = foreseenUnknown
		f.plane.log.Debug("what an object would newly deny is not known in time", "object", o.Key.String(), "err", err)
	case len(sentences) > 0:
		result = foreseenSaid
	}
	f.took.WithLabelValues(result).Observe(time.Since(began).Seconds())
	var out []admission.Finding
	for _, s := range sentences {
		out = append(out, admission.Finding{Severity: admission.Warning, Key: o.Key, Message: s, Fix: "see sallyport simulate"})
	}
	return out
}

var errBusy = errors.New("another object is looked at")

func (f *foresight) look(ctx context.Context, o *config.Object) ([]string, error) {
	select {
	case f.busy <- struct{}{}:
		defer func() { <-f.busy }()
	default:
		return nil, errBusy
	}
	list, err := f.recent.of(ctx, f.about(o))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	sides, err := f.sides(ctx, o)
	if err != nil || sides.Base == sides.Candidate {
		return nil, err
	}
	found, err := simulate.Foresee(ctx, sides, list)
	if err != nil {
		return nil, err
	}
	when := "in the last hour"
	if len(list) >= query.RecentInputs {
		when += ", at least"
	}
	return found.Sentences(when, foreseeRoom), nil
}

// about are the namespaces whose traffic who writes the object may learn of: the object's own; of the root namespace's objects, all.
func (f *foresight) about(o *config.Object) []string {
	if o.Namespace == f.plane.snapshot.Load().Mesh.RootNamespace {
		return nil
	}
	return []string{o.Namespace}
}

// sides are what is in force, and what would be with the object.
func (f *foresight) sides(ctx context.Context, o *config.Object) (*simulate.Sides, error) {
	now := time.Now()
	if stands := f.plane.known.get(o.Key); stands != nil {
		o.Created = stands.Created
	} else {
		o.Created = cmp.Or(o.Created, now)
	}
	decode.Stamp(o)
	q := proposal{o, make(chan [2]*registry.Snapshot, 1)}
	select {
	case f.plane.proposals <- q:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case is := <-q.answer:
		return &simulate.Sides{Base: is[0], Candidate: is[1], Now: now, Revision: f.plane.known.revision}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// proposal asks the one writer what is in force, and what would be with an object.
type proposal struct {
	object *config.Object
	answer chan [2]*registry.Snapshot // holds one: who asks may not wait for it
}

func (q proposal) put(r *registry.Registry) {
	q.answer <- [2]*registry.Snapshot{r.Snapshot(), r.Would(config.Change{Key: q.object.Key, Object: q.object})}
}

// recently is what the log said last, about one set of namespaces.
type recently struct {
	ask func(ctx context.Context, namespaces []string) ([]inputs.Input, error)

	mu   sync.Mutex
	last *reading
}

// reading is one answer of the log, there or under way.
type reading struct {
	namespaces []string
	began      time.Time
	done       chan struct{}
	list       []inputs.Input // and err, once done is closed
	err        error
}

// of gives what was asked for lately. A question to the log goes on when ctx ends, so that who asks next has its answer.
func (r *recently) of(ctx context.Context, namespaces []string) ([]inputs.Input, error) {
	x, err := r.begin(ctx, namespaces)
	if err != nil {
		return nil, err
	}
	select {
	case <-x.done:
		return x.list, x.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// begin finds the reading that will do, or begins one where none is under way.
func (r *recently) begin(ctx context.Context, namespaces []string) (*reading, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.last; x != nil {
		over := false
		select {
		case <-x.done:
			over = true
		default:
		}
		switch same := slices.Equal(x.namespaces, namespaces); {
		case same && (!over || x.err == nil && time.Since(x.began) < foreseeFresh):
			return x, nil
		case !over:
			return nil, errBusy
		}
	}
	x := &reading{namespaces: namespaces, began: time.Now(), done: make(chan struct{})}
	r.last = x
	go func() {
		defer close(x.done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), foreseeReading)
		defer cancel()
		x.list, x.err = r.ask(ctx, namespaces)
	}()
	return x, nil
}
