package console

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// totals are the numbers of what is asked for, and what they were over time.
type totals struct {
	Records, Allowed, Denied, WouldDeny, Lost uint64
	Sent, Received                            uint64
	Proxies                                   uint64
	Last                                      time.Time // when the last of them came in
	Chart                                     chart
}

// chart is drawn in the template: a bar for each slice of the time.
type chart struct {
	Since, Until time.Time
	Bars         []bar
	Most         uint64
	Between      string // address of this page for another time, with SINCE and UNTIL in their places
}

// bar is one slice, in the chart's pixels.
type bar struct {
	Since, Until    time.Time
	Allowed, Denied uint64
	X               float64
	DeniedY, AllowY float64
	DeniedH, AllowH float64
	Link            string
}

// The chart's size in its own pixels.
const (
	chartWidth  = 720
	chartHeight = 90
	barWidth    = float64(chartWidth) / chartSlices
)

// Rows are the slices in which something happened.
func (c chart) Rows() (out []bar) {
	for _, b := range c.Bars {
		if b.Allowed+b.Denied > 0 {
			out = append(out, b)
		}
	}
	return out
}

// Width is that of a bar, with a little room between.
func (c chart) Width() float64 { return barWidth - 1 }

// total adds up what is asked for.
func (h *handler) total(ctx context.Context, a asked) (t totals, err error) {
	f := a.Filter
	where, args := f.Condition()
	width := max(f.Until.Sub(f.Since).Microseconds()/chartSlices, 1)
	t.Chart = chart{Since: f.Since, Until: f.Until, Bars: make([]bar, chartSlices), Between: a.here(a.Expression.Between("SINCE", "UNTIL"))}
	err = h.rows(ctx, `SELECT least((epoch_us(time) - ?) // ?, ?)::INTEGER AS slice, count(*)::UBIGINT,
			count(*) FILTER (verdict = 'allowed')::UBIGINT, count(*) FILTER (verdict = 'denied')::UBIGINT, count(*) FILTER (coalesce(would_deny_kind, '') <> '')::UBIGINT,
			`+added("lost")+`, `+added("bytes_sent")+`, `+added("bytes_received")+`, approx_count_distinct(proxy)::UBIGINT, max(ingested)
		FROM `+store.Table+` WHERE `+where+` GROUP BY slice`, append([]any{f.Since.UnixMicro(), width, chartSlices - 1}, args...),
		func(rows *sql.Rows) error {
			var slice int
			var records, allowed, denied, would, lost, sent, received, proxies uint64
			var last time.Time
			if err := rows.Scan(&slice, &records, &allowed, &denied, &would, &lost, &sent, &received, &proxies, &last); err != nil {
				return err
			}
			t.Chart.Bars[slice].Allowed, t.Chart.Bars[slice].Denied = allowed, denied
			t.Records += records
			t.Allowed += allowed
			t.Denied += denied
			t.WouldDeny += would
			t.Lost, t.Sent, t.Received = plus(t.Lost, lost), plus(t.Sent, sent), plus(t.Received, received)
			t.Proxies = max(t.Proxies, proxies)
			if last.After(t.Last) {
				t.Last = last
			}
			return nil
		})
	t.Chart.draw(a, time.Duration(width)*time.Microsecond)
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
func (c *chart) draw(a asked, width time.Duration) {
	for i := range c.Bars {
		c.Most = max(c.Most, c.Bars[i].Allowed+c.Bars[i].Denied)
	}
	for i := range c.Bars {
		b := &c.Bars[i]
		b.Since = c.Since.Add(time.Duration(i) * width)
		b.Until = b.Since.Add(width)
		b.X = float64(i) * barWidth
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

// added is a sum that stays within its type, whatever proxies claim.
func added(column string) string {
	return "coalesce(least(sum(" + column + "), 18446744073709551615), 0)::UBIGINT"
}

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
