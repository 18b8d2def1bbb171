package console

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// reviewPage is what waits for a word, and what was decided.
type reviewPage struct {
	Waiting, Decided []item
	More, Older      int      // that wait, and that were decided, and are not shown
	Cut              []string // namespaces of which there is more in the log than was read
	Said             string
	YAML             string // of what was approved just now
	Applied          bool   // and it is applied
	Asks             *word  // what was not said yet: whether the objects are to be applied
	Applies          bool   // the page can apply what is approved, by the reader's token
	WhyNot           string // it cannot
}

// item is one of them, and its records.
type item struct {
	review.Item
	Link string
}

// Bounds of the page.
const (
	reviewSince = 30 * 24 * time.Hour
	evidenceFor = time.Minute // as long as somebody goes through a list
	mostItems   = 200
	mostWhole   = 4 // namespaces whose records are remembered that long
	// byPage is who decides where nobody logs in.
	byPage = "whoever reaches the console"
)

// seen reads what says what waits.
func (h *handler) seen(ctx context.Context) (*seen.Log, error) {
	now := h.Now()
	return h.evidence.read(ctx, now, evidenceFor, func(ctx context.Context) (*seen.Log, error) {
		return seen.Sighted(ctx, detect.DB{DB: h.DB}, seen.Question{Since: now.Add(-reviewSince), Until: now})
	})
}

// seenOf reads all that objects for a namespace's workloads are made of, of its records.
func (h *handler) seenOf(ctx context.Context, namespace string) (*seen.Log, error) {
	now := h.Now()
	of, known := h.whole.Get(namespace)
	if !known {
		of = newLately[*seen.Log]()
		if first, there, _ := h.whole.PeekOrAdd(namespace, of); there {
			of = first
		}
	}
	return of.read(ctx, now, evidenceFor, func(ctx context.Context) (*seen.Log, error) {
		return seen.Read(ctx, detect.DB{DB: h.DB}, seen.Question{Since: now.Add(-reviewSince), Until: now, Namespace: namespace})
	})
}

var errElsewhere = errors.New("decisions are not kept by this server")

// reviewed is the configuration, where there is a folder for what is decided.
func (h *handler) reviewed(ctx context.Context) (*Config, error) {
	c, err := h.config(ctx)
	if err == nil && h.Decisions == "" {
		err = missing{errElsewhere}
	}
	return c, err
}

// looked is what there is to decide about.
type looked struct {
	may     scope
	inForce suggest.Config
	log     *seen.Log
	waiting []suggest.Wait
	files   review.Files
	now     time.Time
}

// look goes through the log with what is in force. r is its registry where something is to be tried on it.
func (h *handler) look(ctx context.Context, c *Config, r *registry.Registry) (l looked, err error) {
	l = looked{may: scopeOf(ctx, c), inForce: suggest.Config{Snapshot: c.Snapshot, Registry: r, Objects: c.Objects, Decide: c.decide}, files: review.Files{Dir: h.Decisions}, now: h.Now()}
	if l.log, err = h.seen(ctx); err != nil {
		return l, err
	}
	l.log = l.may.seen(l.log)
	l.waiting = suggest.Waiting(l.inForce, l.log, l.now)
	return l, nil
}

// seen is what workloads of the reader's namespaces did.
func (s scope) seen(log *seen.Log) *seen.Log {
	if s.All {
		return log
	}
	own := &seen.Log{Since: log.Since, Until: log.Until, Oldest: log.Oldest, Cut: map[string]bool{}, Rules: map[seen.Rule]bool{}}
	for _, f := range log.Flows {
		if s.has(f.Namespace) {
			own.Flows = append(own.Flows, f)
		}
	}
	for namespace := range log.Cut {
		if s.has(namespace) {
			own.Cut[namespace] = true
		}
	}
	for r := range log.Rules {
		own.Rules[r] = own.Rules[r] || s.has(r.Namespace)
	}
	return own
}

// decisions are those about workloads of the reader's namespaces.
func (s scope) decisions(all []review.Decision) []review.Decision {
	if s.All {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(d review.Decision) bool { return !s.has(d.Namespace) })
}

// approval is the YAML that lets an item through, of what its namespace did, if all of it is the reader's to see.
func (l looked) approval(i *review.Item, whole *seen.Log) ([]suggest.Change, []byte, error) {
	changes, text, err := review.Approval(l.inForce, whole, i, l.now)
	switch {
	case l.may.All:
		return changes, text, err
	case err != nil:
		return nil, nil, errors.New(l.may.veil(err.Error()))
	}
	for at := range changes {
		if key := changes[at].Key(); !l.may.has(key.Namespace) {
			return nil, nil, fmt.Errorf("%s: it takes a %s of another namespace, whose records you may not read: ask somebody who may", i.ID, key.Kind)
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	for at, line := range lines {
		if strings.HasPrefix(line, "#") {
			lines[at] = l.may.veil(line)
		}
	}
	return changes, []byte(strings.Join(lines, "")), nil
}

func (h *handler) reviewPage(ctx context.Context, _ *http.Request, _ asked) (v view, err error) {
	c, err := h.reviewed(ctx)
	if err != nil {
		return v, err
	}
	l, err := h.look(ctx, c, nil)
	if err != nil {
		return v, err
	}
	return l.page(reviewPage{Applies: h.applies(ctx) == nil})
}

// readFor reads what an approval will be made of, so that it need not be waited for again.
func (h *handler) readFor(ctx context.Context, said word, c *Config) error {
	l, err := h.look(ctx, c, nil)
	if err != nil {
		return err
	}
	for _, w := range l.waiting {
		if review.ID(w.Namespace, w.Account, w.Host, w.Port) == said.ID {
			_, err := h.seenOf(ctx, w.Namespace)
			return err
		}
	}
	return nil // it is no item's, which is said later
}

// page lists the items.
func (l looked) page(p reviewPage) (v view, err error) {
	p.Cut = slices.Sorted(maps.Keys(l.log.Cut))
	decisions, err := l.files.Read()
	if err != nil {
		return v, err
	}
	for _, i := range review.Items(l.waiting, l.may.decisions(decisions), l.now) {
		x := item{i, link("/log", query.Expression{Terms: []query.Term{is("workload", i.Namespace+"/"+i.Workload), is("host", i.Host)}, Since: "30d"})}
		switch {
		case i.State == review.StateWaiting:
			p.Waiting = append(p.Waiting, x)
		default:
			p.Decided = append(p.Decided, x)
		}
	}
	p.More = max(0, len(p.Waiting)-mostItems)
	p.Waiting = shares(p.Waiting, mostItems, func(i *item) string { return i.Namespace })
	slices.SortStableFunc(p.Decided, func(a, b item) int { return b.Decision.At.Compare(a.Decision.At) })
	p.Older = max(0, len(p.Decided)-mostItems)
	p.Decided = shares(p.Decided, mostItems, func(i *item) string { return i.Namespace })
	return view{Template: "review", Title: "Review", Fixed: true, basis: l.may.config.basis(), Data: p}, nil
}

// decide takes a word about an item. It is kept with the others, which sallyport review reads, too.
func (h *handler) decide(ctx context.Context, r *http.Request, _ asked) (v view, err error) {
	if err := r.ParseForm(); err != nil {
		return v, wrong{err}
	}
	said, err := h.word(ctx, r)
	if err != nil {
		return v, wrong{err}
	}
	c, err := h.reviewed(ctx)
	if err != nil {
		return v, err
	}
	var m made
	if said.action != review.StateApproved {
		m, err = h.foresee(ctx, said, c, nil)
	} else if err = h.readFor(ctx, said, c); err == nil { // others wait for the registry no longer than it takes
		err = c.Try(ctx, func(c *Config, of *registry.Registry) error {
			m, err = h.foresee(ctx, said, c, of)
			return err
		})
	}
	if err != nil {
		return v, err
	}
	v.then = func(ctx context.Context) (view, error) { return h.take(ctx, r, m) }
	return v, nil
}
