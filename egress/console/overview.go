package console

import (
	"context"
	"database/sql"
	"net/http"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/detect"
)

// overview is the first page.
type overview struct {
	totals
	DeniedMost, Workloads groups
	New                   []fresh
	NewMore, NewKnown     bool
	Proxies               uint64 // that reported, about, in the bar of which most did
	Connected             connected
	Gaps                  []gap
	Found                 *detect.Report
	Findings              []detect.Finding
	Looks                 bool // for findings
	Notice                string
	DeniedLink            string
	WouldLink             string
}

// fresh is a host that a workload was not seen with before.
type fresh struct {
	Workload, Host string
	Port           uint32
	Verdict        string
	First          time.Time
	Records        uint64
	Link           string
}

// gap is what is missing of a proxy.
type gap struct {
	Proxy, Reason string
	Lost          uint64
	Last          time.Time
	Link          string
}

func (h *handler) overview(ctx context.Context, _ *http.Request, a asked) (view, error) {
	o := overview{DeniedLink: link("/log", a.Expression.With(is("verdict", "denied"))), WouldLink: link("/log", a.Expression.With(like("would-deny", "*")))}
	v := view{Template: "overview", Title: "Overview"}
	var err error
	if o.totals, err = h.total(ctx, a); err != nil {
		return v, err
	}
	if o.Proxies, err = h.proxies(ctx, a, o.Chart); err != nil {
		return v, err
	}
	if o.DeniedMost, err = h.groups(ctx, a, dimensions[0], shortList, "denied", is("verdict", "denied")); err != nil {
		return v, err
	}
	by, _ := dimensionOf("workload")
	if o.Workloads, err = h.groups(ctx, a, by, shortList, "records", traffic); err != nil {
		return v, err
	}
	if o.NewKnown = askable(a.Expression.Terms); o.NewKnown {
		if err := h.news(ctx, a, &o); err != nil {
			return v, err
		}
	}
	if o.Lost > 0 {
		if err := h.gaps(ctx, a, &o); err != nil {
			return v, err
		}
	}
	if o.Connected, err = h.connected(ctx); err != nil {
		return v, err
	}
	if h.Notice != nil {
		o.Notice = h.Notice()
	}
	if o.Looks = h.Found != nil; o.Looks {
		if o.Found = h.found(ctx); o.Found != nil {
			o.Findings = sharesOf(o.Found.Findings, shortList)
		}
	}
	v.Data = o
	return v, nil
}

// inputKeys are what can be asked of inputs, which have no more.
var inputKeys = map[string]bool{"host": true, "workload": true, "from": true, "account": true, "namespace": true, "verdict": true, "port": true, "class": true, "protocol": true, "path": true, "method": true}

func askable(terms []query.Term) bool {
	for _, t := range terms {
		if !inputKeys[t.Key] {
			return false
		}
	}
	return true
}

// news reads what was not there before, from the inputs, which are few.
func (h *handler) news(ctx context.Context, a asked, o *overview) error {
	f := a.Filter
	f.Since, f.Until = time.Time{}, time.Time{}
	const newestFirst = "first DESC, who, host"
	where, args := f.OfSenders()
	statement := func(sightings string) string {
		return `SELECT * FROM (SELECT *, count(*) OVER () > ? FROM (SELECT ` + whoInput + ` AS who, host, max(port), min(first) AS first, ` + added("records") + `, arg_max(verdict, last)
		FROM ` + sightings + ` WHERE host <> '' AND class <> 'gap' AND ` + where + `
		GROUP BY who, host HAVING min(first) >= ? AND min(first) < ?) ORDER BY ` + inTurn("split_part(who, '/', 1)", newestFirst, shortList) + ` LIMIT ?) ORDER BY ` + newestFirst
	}
	return h.sighted(ctx, statement, append(append([]any{shortList}, args...), a.Filter.Since.UTC(), a.Filter.Until.UTC(), shortList), func(rows *sql.Rows) error {
		var x fresh
		err := rows.Scan(&x.Workload, &x.Host, &x.Port, &x.First, &x.Records, &x.Verdict, &o.NewMore)
		e := query.Expression{Since: a.Expression.Since, Until: a.Expression.Until, Terms: append(termsOfWorkload(x.Workload), is("host", x.Host))}
		x.Link = link("/log", e)
		o.New = append(o.New, x)
		return err
	})
}

// whoInput is who, of inputs.
const whoInput = `namespace || '/' || coalesce(nullif(service_account, ''), workload)`

// proxies counts those that reported, about, in the bar of which most did.
func (h *handler) proxies(ctx context.Context, a asked, c chart) (n uint64, err error) {
	err = h.sums(ctx, query.Sums{Filter: a.Filter, Columns: []string{"proxy"}, Grain: c.grain, Statement: func(relation string) string {
		return "SELECT coalesce(max(n), 0)::UBIGINT FROM (SELECT " + c.slice("began") + " AS slice, approx_count_distinct(proxy) AS n FROM " + relation + " GROUP BY slice)"
	}}, func(rows *sql.Rows) error { return rows.Scan(&n) })
	return n, err
}

// gaps reads what is missing, by proxy.
func (h *handler) gaps(ctx context.Context, a asked, o *overview) error {
	where, args := a.Filter.Condition()
	return h.rows(ctx, `SELECT proxy, arg_max(reason, time), `+added("lost")+` AS n, max(time) FROM `+a.Filter.Relation("proxy", "class", "reason", "lost")+`
		WHERE class = 'gap' AND `+where+` GROUP BY proxy ORDER BY n DESC, proxy LIMIT ?`, append(args, shortList), func(rows *sql.Rows) error {
		var x gap
		err := rows.Scan(&x.Proxy, &x.Reason, &x.Lost, &x.Last)
		x.Link = link("/log", a.Expression.With(is("class", "gap")).With(is("proxy", x.Proxy)))
		o.Gaps = append(o.Gaps, x)
		return err
	})
}
