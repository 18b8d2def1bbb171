package console

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

var (
	errUnknownGroup = errors.New("group: records are added up by " + strings.Join(dimensionNames(), ", "))
	errTooFar       = fmt.Errorf("page: at most %d pages can be turned; choose another time", mostPages)
	errNoRecord     = errors.New("there is no such record: it may be older than what is kept")
	errRecordName   = errors.New("a record is named by proxy, epoch and seq")
)

func dimensionNames() (out []string) {
	for _, d := range dimensions {
		out = append(out, d.Name)
	}
	return out
}

// recordPage is one record, with everything that it says.
type recordPage struct {
	*record.Record
	Heading     string
	Reason, Raw string
	Fields      []field
	HostLink    string
	Workload    string
	WorkLink    string
	Around      string // what that workload did around then
	Explain     explained
}

// field is a column of the record, and its value.
type field struct {
	Name, Doc, Text, Only, Not string
}

// recordLink is a record's address, for ever.
func recordLink(r *record.Record) string {
	return "/record?" + url.Values{"proxy": {r.Proxy}, "epoch": {strconv.FormatUint(r.Epoch, 10)}, "seq": {strconv.FormatUint(r.Seq, 10)}}.Encode()
}

func (h *handler) recordPage(ctx context.Context, req *http.Request, _ asked) (view, error) {
	q := req.URL.Query()
	epoch, err1 := strconv.ParseUint(q.Get("epoch"), 10, 64)
	seq, err2 := strconv.ParseUint(q.Get("seq"), 10, 64)
	if err1 != nil || err2 != nil || q.Get("proxy") == "" {
		return view{}, wrong{errRecordName}
	}
	var found []record.Record
	few, args := query.Filter{Within: within(ctx)}.Few([]string{"seq", "epoch", "proxy"}, "seq = ? AND epoch = ? AND proxy = ?", seq, epoch, q.Get("proxy"))
	err := h.rows(ctx, "SELECT "+store.Columns()+" FROM "+few+" LIMIT 1", args, func(rows *sql.Rows) error {
		r, err := store.ScanRecord(rows)
		found = append(found, r)
		return err
	})
	switch {
	case err != nil:
		return view{}, err
	case len(found) == 0:
		return view{}, missing{errNoRecord}
	}
	r := &found[0]
	p := recordPage{Record: r, Heading: headingOf(r), Reason: reasonOf(r), Workload: workloadOf(r)}
	if _, raw, is := strings.Cut(r.Reason, failed); is {
		p.Raw = strings.ReplaceAll(raw, "_", " ")
	}
	then := windowOf(r.Time, h.Now())
	if r.Host != "" {
		p.HostLink = link("/host", then, "name", r.Host)
	}
	if strings.Contains(p.Workload, "/") {
		p.WorkLink = link("/workload", then, "name", p.Workload)
		p.Around = link("/log", query.Expression{Terms: termsOfWorkload(p.Workload), Since: iso(r.Time.Add(-around)), Until: iso(r.Time.Add(around))})
	}
	p.Fields = fields(r, then)
	if r.Class == record.Network || r.Class == record.HTTP {
		p.Explain = h.explainRecord(ctx, r)
	}
	return view{Template: "record", Title: "Record", Fixed: true, Data: p}, nil
}

// headingOf says what a record is about.
func headingOf(r *record.Record) string {
	switch {
	case r.Class == record.Gap:
		return plural(r.Count, "missing record")
	case r.Class == record.Action:
		return r.Deed()
	}
	return cmp.Or(hostPort(r), r.Destination, "No host")
}

// windowOf is a time that a record is in: the usual one, or that of a day around it.
func windowOf(at, now time.Time) query.Expression {
	const half = 12 * time.Hour
	if age := now.Sub(at); age > 0 && age < 2*half {
		return query.Expression{}
	}
	return query.Expression{}.Between(iso(at.Add(-half)), iso(at.Add(half)))
}

// fields are those that say something; what they lead to is of a time that the record is in.
func fields(r *record.Record, then query.Expression) (out []field) {
	in := asked{Path: "/log", Expression: then}
	for i := range schema.Columns {
		c := &schema.Columns[i]
		f := field{Name: c.Name, Doc: strings.ReplaceAll(c.Doc, "`", ""), Text: columnText(c, r)}
		if c.Name == "time" {
			f.Text = iso(r.Time)
		} else if f.Text != "" {
			f.Only, f.Not = in.narrower(termOf(c.Name, f.Text))
		}
		if before, _, found := strings.Cut(f.Doc, "(["); found {
			f.Doc = strings.TrimSpace(before)
		}
		if f.Text != "" {
			out = append(out, f)
		}
	}
	return out
}

// around is how much of the log before and after a record is looked at with it.
const around = 5 * time.Minute

// termOf is a term that a column has a value.
func termOf(column, text string) query.Term {
	if column == "workload" { // which as a key is a namespace's, and an account's, too
		column = "pod"
	}
	return is(column, text)
}
