package console

import (
	"cmp"
	"context"
	"database/sql"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// logPage is the log: records, or what they add up to.
type logPage struct {
	totals
	Columns      []column
	Choosable    []choice // columns; Current are shown
	By           []choice
	Groups       *groups
	Rows         []row
	Newer, Older string
	From, To     int
	Downloads    []choice
	MostRecords  uint64
}

// column is one of the table's.
type column struct {
	Name, Title string
	text        func(*record.Record) string
	term        func(*record.Record) (query.Term, bool)
}

// row is a record.
type row struct {
	Link       string
	Time       string
	Verdict    string
	Gap        bool
	Cells      []cell
	Why, Allow string // where denied
	*record.Record
}

// cell is a value, and what it can do to the filter.
type cell struct {
	Title, Text   string
	Of, Only, Not string // what is included or excluded, and the addresses that do it
	Class         string
}

// own are columns that say more than one of the log's.
var own = []column{
	{"verdict", "Verdict", func(r *record.Record) string { return cmp.Or(string(r.Verdict), r.Action) }, func(r *record.Record) (query.Term, bool) {
		if r.Verdict == "" && r.Action != "" {
			return is("action", r.Action), true
		}
		return is("verdict", string(r.Verdict)), true
	}},
	{"workload", "Workload", workloadOf, func(r *record.Record) (query.Term, bool) { return termsOfWorkload(workloadOf(r))[0], true }},
	{"host", "Host", hostPort, plain("host", func(r *record.Record) string { return r.Host })},
	{"port", "Port", func(r *record.Record) string { return number(uint64(r.Port)) }, plain("port", func(r *record.Record) string { return number(uint64(r.Port)) })},
	{"request", "Request", requestOf, func(r *record.Record) (query.Term, bool) {
		if r.Method == "" {
			return is("protocol", r.Protocol), true
		}
		return is("method", r.Method), true
	}},
	{"way", "Way", func(r *record.Record) string { return r.Path }, plain("path", func(r *record.Record) string { return r.Path })},
	{"decided", "Decided by", deciderOf, func(r *record.Record) (query.Term, bool) {
		d := r.DecidedBy
		if d.Kind == "" {
			return is("decided", ""), true
		}
		return is("decided", d.Kind+"/"+d.Namespace+"/"+d.Name), true
	}},
	{"reason", "Reason", reasonOf, plain("reason", func(r *record.Record) string { return r.Reason })},
	{"bytes", "Bytes", func(r *record.Record) string { return byteSize(plus(r.BytesSent, r.BytesReceived)) }, func(r *record.Record) (query.Term, bool) {
		n := query.Term{Key: "bytes", Operator: ">=", Values: []string{strconv.FormatUint(plus(r.BytesSent, r.BytesReceived), 10)}} // the same number hardly comes again
		return n, true
	}},
}

// usual are the columns that are shown where the address names none.
var usual = []string{"verdict", "workload", "host", "request", "decided", "reason"}

// plain is a term that a key has the column's text, or nothing, where the key takes that.
func plain(key string, text func(*record.Record) string) func(*record.Record) (query.Term, bool) {
	_, err := query.ParseExpression(is(key, "").String())
	nothing, none := "", err == nil
	if _, err := query.ParseExpression(is(key, "0").String()); !none && err == nil { // of numbers it is the same as none
		nothing, none = "0", true
	}
	return func(r *record.Record) (query.Term, bool) {
		s := text(r)
		return is(key, cmp.Or(s, nothing)), s != "" || none
	}
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// workloadOf is what the dimension workload has.
func workloadOf(r *record.Record) string {
	w := r.Workload
	if w.Namespace == "" {
		return w.Principal
	}
	name := w.ServiceAccount
	if name == "" {
		name = w.Name
	}
	return w.Namespace + "/" + name
}

func hostPort(r *record.Record) string {
	if r.Port == 0 || r.Host == "" {
		return r.Host
	}
	return net.JoinHostPort(r.Host, strconv.FormatUint(uint64(r.Port), 10))
}

func requestOf(r *record.Record) string {
	if r.Method == "" {
		return r.Protocol
	}
	text := r.Method + " " + r.URLPath
	if r.Status != 0 {
		text += " → " + strconv.FormatUint(uint64(r.Status), 10)
	}
	return text
}

// deciderOf is what the dimension rule has.
func deciderOf(r *record.Record) string {
	o := r.DecidedBy
	if r.Verdict == record.Allowed && r.AllowedBy.Kind != "" {
		o = r.AllowedBy
	}
	if o.Kind == "" {
		return ""
	}
	return strings.TrimSpace(o.Kind + " " + o.Namespace + "/" + o.Name + " " + o.Rule)
}

// columns are all that can be chosen: those above, and each of the log's by its name.
var columns = func() []column {
	out := slices.Clone(own)
	for i := range schema.Columns {
		c := &schema.Columns[i]
		if c.Name == "time" || slices.ContainsFunc(own, func(o column) bool { return o.Name == c.Name }) {
			continue
		}
		text := func(r *record.Record) string { return columnText(c, r) }
		out = append(out, column{c.Name, strings.ReplaceAll(c.Name, "_", " "), text, plain(c.Name, text)})
	}
	return out
}()

// columnText is a column's value as a term of a filter has it.
func columnText(c *schema.Column, r *record.Record) string {
	switch v := c.Value(r).(type) {
	case string:
		return v
	case uint32:
		return number(uint64(v))
	case uint64:
		return number(v)
	case int64:
		return number(uint64(max(v, 0)))
	}
	return ""
}

func (h *handler) logPage(ctx context.Context, _ *http.Request, a asked) (v view, err error) {
	p := logPage{MostRecords: mostRecords}
	if p.totals, err = h.total(ctx, a); err != nil {
		return v, err
	}
	by := a.values.Get("group")
	p.choose(a, by)
	if d, grouped := dimensionOf(by); grouped {
		g, err := h.groups(ctx, a, d, mostGroups, "records")
		if err != nil {
			return v, err
		}
		p.Groups = &g
	} else if err := h.turn(ctx, a, &p); err != nil {
		return v, err
	}
	for _, format := range []string{"json", "csv", "parquet"} {
		p.Downloads = append(p.Downloads, choice{Text: format, Link: link("/log."+format, a.Expression.Between(iso(a.Filter.Since), iso(a.Filter.Until)))})
	}
	return view{Template: "log", Title: "Log", Data: p}, nil
}

// choose reads which columns are shown, and how it is added up.
func (p *logPage) choose(a asked, by string) {
	named := a.values["col"]
	if len(named) == 0 {
		named = usual
	}
	for _, c := range columns {
		shown := slices.Contains(named, c.Name)
		if shown {
			p.Columns = append(p.Columns, c)
		}
		p.Choosable = append(p.Choosable, choice{Text: c.Title, Link: c.Name, Current: shown})
	}
	cols := []string(nil)
	for _, c := range a.values["col"] {
		cols = append(cols, "col", c)
	}
	p.By = append(p.By, choice{"none", link("/log", a.Expression, cols...), by == ""})
	for _, d := range dimensions {
		p.By = append(p.By, choice{strings.ToLower(d.Title), link("/log", a.Expression, append([]string{"group", d.Name}, cols...)...), by == d.Name})
	}
}

// turn reads a page of records, the newest first.
func (h *handler) turn(ctx context.Context, a asked, p *logPage) error {
	at, _ := strconv.Atoi(a.values.Get("page")) // it was checked; none is the first one
	f := a.Filter
	f.Since = p.Chart.newest(uint64(at*perPage+perPage+1), f.Since)
	records, err := h.records(ctx, f, at*perPage, perPage+1)
	if err != nil {
		return err
	}
	pinned := a.Expression.Between(iso(a.Filter.Since), iso(a.Filter.Until)) // so that what comes in moves nothing
	turned := asked{Path: a.Path, values: a.values}
	to := func(page int) string {
		at := turned.here(pinned)
		return at + "&page=" + strconv.Itoa(page)
	}
	if at > 0 {
		p.Newer = to(at - 1)
	}
	if len(records) > perPage {
		records = records[:perPage]
		if at+1 < mostPages {
			p.Older = to(at + 1)
		}
	}
	p.From, p.To = at*perPage+1, at*perPage+len(records)
	for i := range records {
		p.Rows = append(p.Rows, p.row(a, &records[i]))
	}
	return nil
}

// records reads some, the newest first. How far back they go is found first, so that the other columns are read of those alone.
func (h *handler) records(ctx context.Context, f query.Filter, offset, most int) (out []record.Record, err error) {
	where, args := f.Condition()
	const newest = "time DESC, proxy DESC, epoch DESC, seq DESC"
	var oldest sql.NullTime
	err = h.rows(ctx, "SELECT min(time) FROM (SELECT time FROM "+f.Relation()+" WHERE "+where+" ORDER BY time DESC LIMIT "+strconv.Itoa(offset+most)+")", args, func(rows *sql.Rows) error {
		return rows.Scan(&oldest)
	})
	if err != nil || !oldest.Valid {
		return nil, err
	}
	f.Since = oldest.Time
	few, args := f.Few(nil, "true")
	err = h.rows(ctx, "SELECT "+store.Columns()+" FROM "+few+" ORDER BY "+newest+" LIMIT "+strconv.Itoa(most)+" OFFSET "+strconv.Itoa(offset), args, func(rows *sql.Rows) error {
		r, err := store.ScanRecord(rows)
		out = append(out, r)
		return err
	})
	return out, err
}

func (p *logPage) row(a asked, r *record.Record) row {
	out := row{Record: r, Link: recordLink(r), Time: short(r.Time), Verdict: string(r.Verdict), Gap: r.Class == record.Gap}
	for _, c := range p.Columns {
		x := cell{Title: c.Title, Text: visible.Text(c.text(r)), Class: c.Name}
		if c.term != nil {
			if t, ok := c.term(r); ok {
				x.Of = visible.Text(cmp.Or(c.text(r), "nothing"))
				if t.Operator != "" {
					x.Of = t.Operator + " " + x.Of
				}
				x.Only, x.Not = a.narrower(t)
			}
		}
		out.Cells = append(out.Cells, x)
	}
	if r.Verdict == record.Denied {
		out.Why, out.Allow = out.Link+"#why", out.Link+"#allow"
	}
	return out
}
