package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/egress/simulate/report"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// simulatePage says what pasted objects would newly deny and allow.
type simulatePage struct {
	YAML    string
	Since   string
	Wrong   string   // what the reader has to mend; what was written stays
	Said    []string // by admission
	Refused bool
	Report  *report.View
}

// Bounds of what is pasted.
const (
	mostPasted  = 1 << 20 // bytes of a form
	mostWritten = 2 << 20 // the same of its objects, with aliases written out
	mostObjects = 500
	mostSaid    = 200 // of what admission says
)

func (h *handler) simulatePage(ctx context.Context, _ *http.Request, _ asked) (view, error) {
	c, err := h.config(ctx)
	if err != nil {
		return view{}, err
	}
	return view{Template: "simulate", Title: "Simulate", Fixed: true, basis: c.basis(), Data: simulatePage{Since: "30d"}}, nil
}

func (h *handler) simulate(ctx context.Context, r *http.Request, _ asked) (v view, err error) {
	if err := r.ParseForm(); err != nil {
		return v, wrong{fmt.Errorf("the objects have more than %d bytes, or the form is broken; sallyport simulate takes files of any size", mostPasted)}
	}
	p := simulatePage{YAML: r.PostForm.Get("yaml"), Since: r.PostForm.Get("since")}
	now := h.Now()
	c, err := h.config(ctx)
	if err != nil {
		return v, err
	}
	amiss := func(status int, err error) (view, error) {
		p.Wrong = visible.Text(err.Error())
		return view{Template: "simulate", Title: "Simulate", Fixed: true, status: status, basis: c.basis(), Data: p}, nil
	}
	since, err := query.ParsePast(p.Since, now)
	if err != nil {
		return amiss(http.StatusBadRequest, fmt.Errorf("since: %w", err))
	}
	may := scopeOf(ctx, c)
	read := decode.Within("pasted.yaml", []byte(p.YAML), decode.Bounds{Bytes: mostWritten, Objects: mostObjects, Take: func(k config.Key) error {
		return may.writes(string(k.Kind), k.Namespace)
	}})
	var closed forbidden
	switch {
	case errors.As(read.Refused, &closed):
		return amiss(http.StatusForbidden, closed)
	case read.Refused != nil:
		return amiss(http.StatusBadRequest, fmt.Errorf("%w: that is too much for this page; sallyport simulate takes as much as there is memory for", read.Refused))
	}
	findings := read.Findings
	for _, o := range read.Objects {
		findings = append(findings, admission.Validate(o)...)
	}
	there := c.objects()
	c.date(read.Objects, there, now)
	findings = append(findings, may.objections(there, read.Objects, now)...)
	for _, f := range findings {
		if len(p.Said) < mostSaid {
			p.Said = append(p.Said, visible.Text(f.String()))
		}
		p.Refused = p.Refused || f.Severity == admission.Error
	}
	if more := len(findings) - mostSaid; more > 0 {
		p.Said = append(p.Said, fmt.Sprintf("and %d more", more))
	}
	if len(read.Objects) == 0 && !p.Refused {
		p.Said, p.Refused = append(p.Said, "there are no objects in it"), true
	}
	if !p.Refused {
		var sides *simulate.Sides
		if err := c.Try(ctx, func(c *Config, r *registry.Registry) error {
			sides = simulate.Propose(r, c.Objects, simulate.Put(read.Objects), now)
			return nil
		}); err != nil {
			return v, err
		}
		run := simulate.New(sides)
		err = query.Inputs(ctx, h.DB, query.Filter{Since: since}, func(x *inputs.Input) error {
			if !may.has(x.Namespace) {
				return nil
			}
			return run.Add(x)
		})
		found := run.Finish()
		if err != nil {
			return v, err
		}
		found.Since, found.Until = since, now
		may.report(found)
		shown := report.ViewOf(found)
		p.Report = &shown
	}
	return view{Template: "simulate", Title: "Simulate", Fixed: true, basis: c.basis(), Data: p}, nil
}

// date gives objects the age that they would have: that of those whose places they take, or, in a cluster, none.
func (c *Config) date(objects, there []config.Object, now time.Time) {
	created := map[config.Key]time.Time{}
	for i := range there {
		created[there[i].Key] = there[i].Created
	}
	for i := range objects {
		was, known := created[objects[i].Key]
		if known || !c.InCluster {
			objects[i].Created = was
		} else {
			objects[i].Created = now
		}
	}
}

// objections are what admission says against objects among those that the reader sees.
func (s scope) objections(there, more []config.Object, now time.Time) []admission.Finding {
	if !s.All {
		there = slices.DeleteFunc(slices.Clone(there), func(o config.Object) bool { return !s.has(cmp.Or(o.Namespace, o.Name)) })
	}
	return simulate.Objections(there, simulate.Applied(there, more), more, *s.config.Snapshot.Mesh, now)
}
