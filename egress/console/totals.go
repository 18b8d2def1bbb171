package console

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// totals are the numbers of what is asked for, and what they were over time.
type totals struct {
	Records, Allowed, Denied, WouldDeny, Lost uint64
	Sent, Received                            uint64
	Last                                      time.Time // when the last of them came in
	Chart                                     chart
}

// chart is drawn in the template: a bar for each slice of the time.
type chart struct {
	Since, Until time.Time
	Bars         []bar
	Most         uint64
	Between      string // address of this page for another time, with SINCE and UNTIL in their places
	grain        time.Duration
}

// bar is one slice, in the chart's pixels. The first and the last one may be cut short.
type bar struct {
	Since, Until    time.Time
	Allowed, Denied uint64
	X, Width        float64
	DeniedY, AllowY float64
	DeniedH, AllowH float64
	Link            string
}

// The chart's size in its own pixels.
const (
	chartWidth  = 720
	chartHeight = 90
)

// grains are how long a bar may be: what people count time by, and from a quarter of an hour on what roll-ups tell apart.
var grains = []time.Duration{
	time.Microsecond, 10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond,
	time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 364 * 24 * time.Hour,
}

// newChart divides a time into bars, which begin at whole ones of their length.
func newChart(since, until time.Time) chart {
	span := until.Sub(since)
	at := slices.IndexFunc(grains, func(g time.Duration) bool { return span <= chartSlices*g })
	if at < 0 {
		at = len(grains) - 1
	}
	c := chart{Since: since, Until: until, grain: grains[at]}
	for from := since.UTC().Truncate(c.grain); from.Before(until) && len(c.Bars) < mostBars; from = from.Add(c.grain) {
		c.Bars = append(c.Bars, bar{Since: from, Until: from.Add(c.grain)})
	}
	if len(c.Bars) == 0 {
		c.Bars = []bar{{Since: since, Until: until}}
	}
	return c
}

// slice is an expression of SQL for the number of the bar that a moment is in.
func (c *chart) slice(at string) string {
	return fmt.Sprintf("least((epoch_us(%s) - %d) // %d, %d)::INTEGER", at, c.Bars[0].Since.UnixMicro(), c.grain.Microseconds(), len(c.Bars)-1)
}

// Rows are the slices in which something happened.
func (c chart) Rows() (out []bar) {
	for _, b := range c.Bars {
		if b.Allowed+b.Denied > 0 {
			out = append(out, b)
		}
	}
	return out
}

// total adds up what is asked for.
func (h *handler) total(ctx context.Context, a asked) (t totals, err error) {
	t.Chart = newChart(a.Filter.Since, a.Filter.Until)
	t.Chart.Between = a.here(a.Expression.Between("SINCE", "UNTIL"))
	err = h.sums(ctx, query.Sums{Filter: a.Filter, Columns: []string{"verdict", "would_deny_kind"}, Grain: t.Chart.grain, Statement: func(relation string) string {
		return "SELECT " + t.Chart.slice("began") + " AS slice, " + added("records") + ", " + addedWhere("records", "verdict = 'allowed'") + ", " + addedWhere("records", "verdict = 'denied'") + ", " +
			addedWhere("records", "would_deny_kind <> ''") + ", " + added("lost") + ", " + added("bytes_sent") + ", " + added("bytes_received") + ", max(ingested) FROM " + relation + " GROUP BY slice"
	}}, func(rows *sql.Rows) error {
		var slice int
		var records, allowed, denied, would, lost, sent, received uint64
		var last time.Time
		if err := rows.Scan(&slice, &records, &allowed, &denied, &would, &lost, &sent, &received, &last); err != nil {
			return err
		}
		t.Chart.Bars[slice].Allowed, t.Chart.Bars[slice].Denied = allowed, denied
		t.Records += records
		t.Allowed += allowed
		t.Denied += denied
		t.WouldDeny += would
		t.Lost, t.Sent, t.Received = plus(t.Lost, lost), plus(t.Sent, sent), plus(t.Received, received)
		if last.After(t.Last) {
			t.Last = last
		}
		return nil
	})
	t.Chart.draw(a)
	return t, err
}

// newest is a moment after which there are n records at least, as late as the bars tell; since where there are fewer. What is looked for among the newest
// is not looked for before it.
func (c *chart) newest(n uint64, since time.Time) time.Time {
	for i := len(c.Bars) - 1; i > 0; i-- {
		if in := c.Bars[i].Allowed + c.Bars[i].Denied; in < n {
			n -= in
			continue
		}
		return c.Bars[i].Since.Add(-time.Microsecond) // a bar begins at a whole one
	}
	return since
}

// draw gives bars their places, and their addresses.
func (c *chart) draw(a asked) {
	for i := range c.Bars {
		c.Most = max(c.Most, c.Bars[i].Allowed+c.Bars[i].Denied)
	}
	pixels := chartWidth / max(float64(c.Until.Sub(c.Since)), 1)
	for i := range c.Bars {
		b := &c.Bars[i]
		if b.Since.Before(c.Since) {
			b.Since = c.Since
		}
		if b.Until.After(c.Until) {
			b.Until = c.Until
		}
		b.X = float64(b.Since.Sub(c.Since)) * pixels
		b.Width = max(float64(b.Until.Sub(b.Since))*pixels-1, 1) // a little room between
		b.DeniedH, b.AllowH = c.height(b.Denied), c.height(b.Allowed)
		b.DeniedY = chartHeight - b.DeniedH
		b.AllowY = b.DeniedY - b.AllowH
		b.Link = a.here(a.Expression.Between(iso(b.Since), iso(b.Until)))
	}
}

func (c *chart) height(n uint64) float64 {
	if n == 0 {
		return 0
	}
	return max(1, float64(n)/float64(c.Most)*(chartHeight-2))
}

// bothWays is how many bytes went to and fro.
const bothWays = "bytes_sent::HUGEINT + bytes_received"

// added is a sum that stays within its type, whatever proxies claim.
func added(column string) string { return schema.Total(column, "") }

// addedWhere is one of rows for which a condition holds.
func addedWhere(column, condition string) string { return schema.Total(column, condition) }

// plus stays at the largest number.
func plus(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// rows asks the database.
func (h *handler) rows(ctx context.Context, statement string, args []any, f func(*sql.Rows) error) error {
	if !narrowed(ctx, statement) {
		return fmt.Errorf("console: a statement would show what %s may not read", readerOf(ctx).Name)
	}
	rows, err := h.DB.QueryContext(ctx, statement, args...) //nolint:gosec // what others wrote is in args alone
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return each(rows, f)
}

// sums asks what records add up to.
func (h *handler) sums(ctx context.Context, s query.Sums, f func(*sql.Rows) error) error {
	if who := readerOf(ctx); !who.All && len(s.Filter.Within) == 0 {
		return fmt.Errorf("console: a sum would show what %s may not read", who.Name)
	}
	s.Vain = h.vain
	if err := s.Each(ctx, h.DB, f); err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// sighted asks what was told apart, over the whole log: statement makes the statement of store.Sightings.
func (h *handler) sighted(ctx context.Context, statement func(relation string) string, args []any, f func(*sql.Rows) error) error {
	tx, err := h.DB.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	relation, err := store.Sightings(ctx, tx)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	text := statement(relation)
	if !narrowed(ctx, text) {
		return fmt.Errorf("console: a statement would show what %s may not read", readerOf(ctx).Name)
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return each(rows, f)
}

// each goes through an answer.
func each(rows *sql.Rows, f func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return fmt.Errorf("console: %w", err)
		}
	}
	return rows.Err()
}
