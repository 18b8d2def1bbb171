package console

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
)

// subject is the page of a host, or of a workload.
type subject struct {
	totals
	Name        string
	Kind        string    // host or workload
	First, Last time.Time // in the whole log
	Days        uint64
	Lists       []groups
	LogLink     string
	Findings    []detect.Finding
	Explain     explained // what is asked in its box
}

func (h *handler) hostPage(ctx context.Context, r *http.Request, a asked) (view, error) {
	return h.subject(ctx, r, a, "host", "workload", "rule", "reason", "address", "port")
}

func (h *handler) workloadPage(ctx context.Context, r *http.Request, a asked) (view, error) {
	return h.subject(ctx, r, a, "workload", "host", "rule", "reason", "pod", "address")
}

func (h *handler) subject(ctx context.Context, r *http.Request, a asked, kind string, lists ...string) (v view, err error) {
	s := subject{Name: r.URL.Query().Get("name"), Kind: kind}
	if s.Name == "" {
		return v, wrong{errors.New("name: which " + kind + "?")}
	}
	d, _ := dimensionOf(kind)
	terms := d.terms(s.Name)
	narrowed := a.beside(terms...)
	s.LogLink = link("/log", narrowed.Expression)
	if s.totals, err = h.total(ctx, narrowed); err != nil {
		return v, err
	}
	for _, name := range lists {
		by, _ := dimensionOf(name)
		g, err := h.groups(ctx, narrowed, by, shortList, "records", traffic)
		if err != nil {
			return v, err
		}
		for i := range g.List { // this page is about no more than the subject
			g.List[i].Not = ""
		}
		if kind == "host" || g.Other != "hosts" {
			g.Other = ""
		}
		s.Lists = append(s.Lists, g)
	}
	if err := h.history(ctx, &s, terms); err != nil {
		return v, err
	}
	s.Findings = h.findingsOf(ctx, &s)
	s.Explain = explained{URL: "https://"}
	if kind == "host" {
		s.Explain.URL += s.Name
	} else {
		s.Explain.From = s.Name
	}
	return view{Template: "subject", Title: visible.Text(s.Name), Data: s}, nil
}

// history says since when, and on how many days, it is in the log.
func (h *handler) history(ctx context.Context, s *subject, terms []query.Term) error {
	where, args := query.Filter{Terms: terms, Within: within(ctx)}.OfSenders()
	if !askable(terms) {
		return nil
	}
	statement := func(sightings string) string {
		return `SELECT min(first), max(last), count(DISTINCT day)::UBIGINT FROM ` + sightings + ` WHERE ` + where
	}
	return h.sighted(ctx, statement, args, func(rows *sql.Rows) error {
		var first, last sql.NullTime
		err := rows.Scan(&first, &last, &s.Days)
		s.First, s.Last = first.Time, last.Time
		return err
	})
}

// findingsOf are those about it.
func (h *handler) findingsOf(ctx context.Context, s *subject) (out []detect.Finding) {
	report := h.found(ctx)
	if report == nil {
		return nil
	}
	for _, f := range report.Findings {
		if len(out) < shortList && (s.Kind == "host" && f.Host == s.Name || s.Kind == "workload" && f.Namespace+"/"+f.Workload == s.Name) {
			out = append(out, f)
		}
	}
	return out
}
