package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
)

// reviewPage is what waits for a word, and what was decided.
type reviewPage struct {
	Waiting, Decided []item
	More             int      // that wait, and are not shown
	Cut              []string // namespaces of which there is more in the log than was read
	Said             string
	YAML             string // of what was approved just now
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
	// byPage is who decides where nobody logs in.
	byPage = "whoever reaches the console"
)

// seen reads what was seen.
func (h *handler) seen(ctx context.Context) (*seen.Log, error) {
	now := h.Now()
	return h.evidence.read(ctx, now, evidenceFor, func(ctx context.Context) (*seen.Log, error) {
		return seen.Read(ctx, detect.DB{DB: h.DB}, seen.Question{Since: now.Add(-reviewSince), Until: now})
	})
}

var errElsewhere = errors.New("decisions are not kept by this server")

// looked is what there is to decide about.
type looked struct {
	may     scope
	inForce suggest.Config
	log     *seen.Log
	waiting []suggest.Wait
	files   review.Files
	now     time.Time
}

func (h *handler) look(ctx context.Context) (l looked, err error) {
	c, err := h.config(ctx)
	if err != nil {
		return l, err
	}
	if h.Decisions == "" {
		return l, missing{errElsewhere}
	}
	l = looked{may: scopeOf(ctx, c), inForce: suggest.Config{Mesh: c.Snapshot.Mesh, Objects: c.Objects, Unread: c.Snapshot.Unread(), Decide: c.decide}, files: review.Files{Dir: h.Decisions}, now: h.Now()}
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

// approval is the YAML that lets an item through, if all of it is the reader's to see.
func (l looked) approval(i *review.Item) ([]byte, error) {
	text, err := review.Approval(l.inForce, l.log, i, l.now)
	switch {
	case l.may.All:
		return text, err
	case err != nil:
		return nil, errors.New(l.may.veil(err.Error()))
	}
	for _, o := range decode.File("approval.yaml", text).Objects {
		if !l.may.has(o.Namespace) {
			return nil, fmt.Errorf("%s: it takes a %s of another namespace, whose records you may not read: ask somebody who may", i.ID, o.Kind)
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	for at, line := range lines {
		if strings.HasPrefix(line, "#") {
			lines[at] = l.may.veil(line)
		}
	}
	return []byte(strings.Join(lines, "")), nil
}

func (h *handler) reviewPage(ctx context.Context, _ *http.Request, _ asked) (v view, err error) {
	l, err := h.look(ctx)
	if err != nil {
		return v, err
	}
	return l.page("", "")
}

// page lists the items.
func (l looked) page(said, yaml string) (v view, err error) {
	p := reviewPage{Said: said, YAML: yaml, Cut: slices.Sorted(maps.Keys(l.log.Cut))}
	decisions, err := l.files.Read()
	if err != nil {
		return v, err
	}
	for _, i := range review.Items(l.waiting, l.may.decisions(decisions), l.now) {
		x := item{i, link("/log", query.Expression{Terms: []query.Term{is("workload", i.Namespace+"/"+i.Workload), is("host", i.Host)}, Since: "30d"})}
		switch {
		case i.State != review.StateWaiting:
			p.Decided = append(p.Decided, x)
		case len(p.Waiting) < mostItems:
			p.Waiting = append(p.Waiting, x)
		default:
			p.More++
		}
	}
	if len(p.Decided) > mostItems { // the newest stay
		p.Decided = p.Decided[len(p.Decided)-mostItems:]
	}
	return view{Template: "review", Title: "Review", Fixed: true, basis: l.may.config.basis(), Data: p}, nil
}

// decide takes a word about an item. It is kept with the others, which sallyport review reads, too.
func (h *handler) decide(ctx context.Context, r *http.Request, _ asked) (v view, err error) {
	if err := r.ParseForm(); err != nil {
		return v, wrong{err}
	}
	id, reason, action, until := r.PostForm.Get("id"), r.PostForm.Get("reason"), r.PostForm.Get("action"), time.Time{}
	switch {
	case !review.IsID(id):
		return v, wrong{errors.New("id: it is no item's")}
	case review.CheckReason(reason) != nil:
		return v, wrong{fmt.Errorf("reason: %w", review.CheckReason(reason))}
	case action == review.StateRejected && reason == "":
		return v, wrong{errors.New("reason: say why it is rejected, for those who come after")}
	}
	l, err := h.look(ctx)
	if err != nil {
		return v, err
	}
	switch action {
	case review.StateApproved, review.StateRejected:
	case review.StateSnoozed:
		until = l.now.Add(7 * 24 * time.Hour).UTC().Truncate(time.Second)
	default:
		return v, wrong{errors.New("action: it is approved, rejected or snoozed")}
	}
	var yaml []byte
	by := cmp.Or(readerOf(ctx).Name, byPage)
	err = l.files.Decide(func(before []review.Decision) (review.Decision, error) {
		i, err := review.Find(review.Items(l.waiting, l.may.decisions(before), l.now), id, false)
		if err == nil && action == review.StateApproved {
			yaml, err = l.approval(i)
		}
		if err != nil {
			return review.Decision{}, wrong{err}
		}
		if err := h.decided(ctx, r, i, action, reason); err != nil {
			return review.Decision{}, err
		}
		return i.Word(action, by, reason, l.now, until), nil
	})
	if err != nil {
		return v, err
	}
	h.Logger.Info("console: a decision", "id", id, "action", action, "by", by, "from", r.RemoteAddr)
	return l.page(id+" is "+action+".", string(yaml))
}
