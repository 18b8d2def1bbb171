package console

import (
	"cmp"
	"context"
	"database/sql"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/policy/matrix"
)

// policiesPage is the EgressPolicies in force: their rules and when each counted last, and who may reach what.
type policiesPage struct {
	Rules      []rule
	Since      time.Time // since when the log was looked at
	Host, From string    // what is asked of the matrix
	Matrix     *matrix.Matrix
	Why        string // there is no matrix
	Narrow     bool   // only the reader's namespaces are shown
}

// rule is one of a policy, or what it says by default.
type rule struct {
	Policy, Name, Selects, Mode, Action, What string
	First                                     bool // of its policy
	Ends                                      time.Time
	Ended, Soon                               bool
	Hits                                      uint64
	Last                                      time.Time
	Link                                      string
}

// Bounds of the page.
const (
	hitsSince = 30 * 24 * time.Hour
	endsSoon  = 14 * 24 * time.Hour
	mostCells = 300
)

func (h *handler) policiesPage(ctx context.Context, r *http.Request, _ asked) (v view, err error) {
	c, err := h.config(ctx)
	if err != nil {
		return v, err
	}
	now := h.Now()
	may := scopeOf(ctx, c)
	p := policiesPage{Narrow: !may.All, Since: now.Add(-hitsSince), Host: r.URL.Query().Get("host"), From: r.URL.Query().Get("from")}
	hits, err := h.hits(ctx, p.Since)
	if err != nil {
		return v, err
	}
	for _, l := range matrix.List(c.Snapshot, now) {
		if !may.has(l.Namespace) {
			continue
		}
		for _, of := range c.Snapshot.Policies(l.Namespace) {
			if of.Key.Name == l.Name {
				p.Rules = append(p.Rules, rulesOf(of, l, hits, now)...)
			}
		}
	}
	p.ask(c, may, now)
	return view{Template: "policies", Title: "Policies", Fixed: true, basis: c.basis(), Data: p}, nil
}

// rulesOf lists a policy's rules, and its default.
func rulesOf(of *egresspolicy.Policy, l matrix.PolicySummary, hits map[string]rule, now time.Time) (out []rule) {
	name := l.Namespace + "/" + l.Name
	add := func(r rule) {
		r.Policy, r.Selects, r.Mode, r.First = name, l.Selects, l.Mode, len(out) == 0
		hit := hits[name+"/"+r.Name]
		r.Hits, r.Last = hit.Hits, hit.Last
		r.Link = link("/log", query.Expression{Terms: []query.Term{is("policy", name), is("rule", r.Name)}, Since: "30d"})
		out = append(out, r)
	}
	for i := range of.Rules {
		r := &of.Rules[i]
		add(rule{Name: r.Name, Action: r.Action.String(), What: whatOf(r), Ends: r.Until, Ended: !r.Until.IsZero() && !now.Before(r.Until), Soon: !r.Until.IsZero() && r.Until.Sub(now) < endsSoon})
	}
	if l.Default != "" {
		add(rule{Name: "default", Action: l.Default, What: "everything else"})
	}
	return out
}

// whatOf says what a rule is about.
func whatOf(r *egresspolicy.Rule) string {
	var out []string
	for _, part := range [][]string{r.Hosts, r.Methods, r.Paths} {
		if len(part) > 0 {
			out = append(out, strings.Join(part[:min(len(part), 6)], ", "))
		}
		if len(part) > 6 {
			out[len(out)-1] += ", …"
		}
	}
	return cmp.Or(visible.Text(strings.Join(out, " · ")), "all hosts")
}

// hits reads how often each rule decided, allowed or would have denied, from what was told apart.
func (h *handler) hits(ctx context.Context, since time.Time) (map[string]rule, error) {
	out := map[string]rule{}
	where, args := query.Filter{Within: within(ctx)}.OfSenders()
	statement := func(sightings string) string {
		return `SELECT split_part(said, '/', 2) || '/' || split_part(said, '/', 3) || '/' || regexp_replace(said, '^([^/]*/){4}', '') AS name, ` + added("records") + `, max(last)
		FROM (SELECT unnest([decided_by, allowed_by, would_deny]) AS said, records, last
			FROM (SELECT decided_by, allowed_by, would_deny, sum(records) AS records, max(last) AS last FROM ` + sightings + ` WHERE last >= ? AND ` + where + ` GROUP BY ALL))
		WHERE starts_with(said, '` + string(config.KindEgressPolicy) + `/') GROUP BY name`
	}
	err := h.sighted(ctx, statement, append([]any{since.UTC()}, args...), func(rows *sql.Rows) error {
		var name string
		var x rule
		err := rows.Scan(&name, &x.Hits, &x.Last)
		out[name] = x
		return err
	})
	return out, err
}

// ask answers who can reach a host, or what a workload can reach.
func (p *policiesPage) ask(c *Config, may scope, now time.Time) {
	if p.Host == "" && p.From == "" {
		return
	}
	if c.Forward != "" {
		p.Why = "the forward proxy acts for namespace " + c.Forward + ", whoever asks: Explain says what it lets out"
		return
	}
	q, err := matrix.ParseQuestion(p.Host, p.From, "", "")
	if err != nil {
		p.Why = err.Error()
		return
	}
	switch {
	case q.Host != "" && !may.All: // its ports may be what another namespace registered
		p.Why = "who can reach a host is for those who may read the records of all namespaces; Explain asks about a workload and a host"
		return
	case q.Host == "" && may.asks(q.From.Namespace) != nil:
		p.Why = errElsewhereAsked.Error()
		return
	}
	q.At, q.Limit = now, mostCells
	m := q.Answer(c.Snapshot, c.workloads())
	for _, cell := range m.Cells {
		for i := range cell.By {
			cell.By[i].DecidedBy = may.by(cell.By[i].DecidedBy)
		}
	}
	p.Matrix = &m
}
