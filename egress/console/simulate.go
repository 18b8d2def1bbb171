package console

import (
	"context"
	"fmt"
	"net/http"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/egress/simulate/report"
)

// simulatePage says what pasted objects would newly deny and allow.
type simulatePage struct {
	YAML    string
	Since   string
	Said    []string // by admission
	Refused bool
	Report  *report.View
}

// mostPasted is how many bytes a form may have.
const mostPasted = 1 << 20

func (h *handler) simulatePage(ctx context.Context, _ *http.Request, _ asked) (view, error) {
	_, err := h.config(ctx)
	return view{Template: "simulate", Title: "Simulate", Fixed: true, Data: simulatePage{Since: "30d"}}, err
}

func (h *handler) simulate(ctx context.Context, r *http.Request, _ asked) (v view, err error) {
	if err := r.ParseForm(); err != nil {
		return v, wrong{fmt.Errorf("the objects have more than %d bytes, or the form is broken; sallyport simulate takes files of any size", mostPasted)}
	}
	p := simulatePage{YAML: r.PostForm.Get("yaml"), Since: r.PostForm.Get("since")}
	now := h.Now()
	since, err := query.ParseTime(p.Since, now)
	if err != nil {
		return v, wrong{err}
	}
	c, err := h.config(ctx)
	if err != nil {
		return v, err
	}
	read := decode.File("pasted.yaml", []byte(p.YAML))
	findings := read.Findings
	for _, o := range read.Objects {
		findings = append(findings, admission.Validate(o)...)
	}
	there := c.objects()
	for i := range read.Objects { // an object that takes another's place has its age
		for _, o := range there {
			if o.Key == read.Objects[i].Key {
				read.Objects[i].Created = o.Created
			}
		}
	}
	would := simulate.Applied(there, read.Objects)
	findings = append(findings, simulate.Objections(there, would, read.Objects, *c.Snapshot.Mesh, now)...)
	for _, f := range findings {
		p.Said = append(p.Said, visible(f.String()))
		p.Refused = p.Refused || f.Severity == admission.Error
	}
	if len(read.Objects) == 0 && !p.Refused {
		p.Said, p.Refused = append(p.Said, "there are no objects in it"), true
	}
	if !p.Refused {
		run := simulate.New(simulate.Propose(c.Snapshot, c.Objects, would, now))
		err = query.Inputs(ctx, h.DB, query.Filter{Since: since}, run.Add)
		found := run.Finish()
		if err != nil {
			return v, err
		}
		found.Since, found.Until = since, now
		shown := report.ViewOf(found)
		p.Report = &shown
	}
	return view{Template: "simulate", Title: "Simulate", Fixed: true, Data: p}, nil
}
