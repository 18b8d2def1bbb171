package console

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"slices"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// flowsPage is which workload went to which host, as a picture and as a table.
type flowsPage struct {
	By     []choice // count or bytes
	Bytes  bool
	Flows  []flow
	More   uint64 // flows that are left out
	Left   []node
	Right  []node
	Height float64
}

// flow is a line of the picture.
type flow struct {
	Workload, Host  string
	Records, Denied uint64
	Bytes           uint64
	Link            string // to its records
	Who, Where      string // to the pages of both
	Path            string // of SVG
	Width           float64
	weight          uint64
}

// node is an end of lines.
type node struct {
	Name, Link   string
	Y, H, TextY  float64
	Denied       bool
	weight, used float64
}

// The picture's sizes.
const (
	flowsLeft, flowsRight = 290.0, 850.0 // where lines begin and end, of 1140
	nodeGap               = 7.0
	leastLine             = 1.5
	leastNode             = 13.0
)

func (h *handler) flowsPage(ctx context.Context, _ *http.Request, a asked) (view, error) {
	p := flowsPage{Bytes: a.values.Get("by") == "bytes"}
	p.By = []choice{{"records", link("/flows", a.Expression), !p.Bytes}, {"bytes", link("/flows", a.Expression, "by", "bytes"), p.Bytes}}
	order := "records"
	if p.Bytes {
		order = "bytes"
	}
	of := a.beside(traffic)
	sums := query.Sums{Filter: of.Filter, Columns: append([]string{"verdict", "host"}, whoReads...), Workload: true, Statement: func(relation string) string {
		return fmt.Sprintf(`SELECT * EXCLUDE sender, count(*) OVER ()::UBIGINT FROM (SELECT %s AS workload, `+hostColumn+` AS host, %s AS records, %s AS denied,
			%s AS bytes, coalesce(namespace, '') AS sender
		FROM %s GROUP BY ALL) ORDER BY %s LIMIT %d`, who, added("records"), addedWhere("records", "verdict = 'denied'"), added(bothWays), relation,
			inTurn("sender", order+" DESC, workload, host", mostFlows), mostFlows)
	}}
	err := h.sums(ctx, sums, func(rows *sql.Rows) error {
		var f flow
		var all uint64
		err := rows.Scan(&f.Workload, &f.Host, &f.Records, &f.Denied, &f.Bytes, &all)
		e := of.Expression
		for _, t := range append(termsOfWorkload(f.Workload), is("host", f.Host)) {
			e = e.With(t)
		}
		f.Link = link("/log", e)
		if f.weight = f.Records; p.Bytes {
			f.weight = f.Bytes
		}
		p.Flows = append(p.Flows, f)
		p.More = all - uint64(len(p.Flows))
		return err
	})
	slices.SortStableFunc(p.Flows, func(a, b flow) int { return cmp.Compare(b.weight, a.weight) })
	p.draw(a)
	return view{Template: "flows", Title: "Flows", Data: p}, err
}

// draw places the ends on both sides, the heaviest first, and the lines between them.
func (p *flowsPage) draw(a asked) {
	total := uint64(0)
	for _, f := range p.Flows {
		total = plus(total, f.weight)
	}
	scale := 420 / max(float64(total), 1)
	for i := range p.Flows {
		p.Flows[i].Width = max(leastLine, float64(p.Flows[i].weight)*scale)
	}
	window := query.Expression{Since: a.Expression.Since, Until: a.Expression.Until}
	for i := range p.Flows {
		f := &p.Flows[i]
		f.Who, f.Where = pageOf("workload", window, f.Workload), pageOf("host", window, f.Host)
	}
	p.Left = ends(p.Flows, func(f *flow) (name, address string) { return f.Workload, f.Who })
	p.Right = ends(p.Flows, func(f *flow) (name, address string) { return f.Host, f.Where })
	left, right := p.place(p.Left), p.place(p.Right)
	order := make([]*flow, len(p.Flows))
	for i := range p.Flows {
		order[i] = &p.Flows[i]
	}
	slices.SortStableFunc(order, func(x, y *flow) int {
		return cmp.Or(cmp.Compare(left[x.Workload].Y, left[y.Workload].Y), cmp.Compare(right[x.Host].Y, right[y.Host].Y))
	})
	for _, f := range order {
		from, to := left[f.Workload], right[f.Host]
		y1, y2 := from.Y+from.used+f.Width/2, to.Y+to.used+f.Width/2
		from.used += f.Width
		to.used += f.Width
		const middle = (flowsLeft + flowsRight) / 2
		f.Path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", flowsLeft, y1, middle, y1, middle, y2, flowsRight, y2)
	}
}

// pageOf is where the page of a host or a workload is, and of what has no name its records.
func pageOf(kind string, window query.Expression, name string) string {
	if name != "" {
		return link("/"+kind, window, "name", name)
	}
	d, _ := dimensionOf(kind)
	for _, t := range d.terms(name) {
		window = window.With(t)
	}
	return link("/log", window)
}

// ends gathers the ends on one side.
func ends(flows []flow, end func(*flow) (name, address string)) (out []node) {
	at := map[string]int{}
	for i := range flows {
		f := &flows[i]
		n, address := end(f)
		if _, known := at[n]; !known {
			at[n] = len(out)
			out = append(out, node{Name: n, Link: address, Denied: true})
		}
		x := &out[at[n]]
		x.weight += f.Width
		x.Denied = x.Denied && f.Denied == f.Records
	}
	slices.SortStableFunc(out, func(a, b node) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

// place stacks ends, and gives them by their names.
func (p *flowsPage) place(nodes []node) map[string]*node {
	out, y := map[string]*node{}, 8.0
	for i := range nodes {
		n := &nodes[i]
		n.Y, n.H = y, max(n.weight, 2)
		n.TextY = y + n.H/2 + 4
		y += max(n.H, leastNode) + nodeGap
		out[n.Name] = n
	}
	p.Height = max(p.Height, y+8)
	return out
}

// Short is a name as the picture has room for it.
func (n node) Short() string {
	name := visible.Text(n.Name)
	if r := []rune(name); len(r) > 32 {
		return string(r[:15]) + "…" + string(r[len(r)-16:])
	}
	if name == "" {
		return "(none)"
	}
	return name
}
