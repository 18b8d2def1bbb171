package query

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// Summary counts records over time.
type Summary struct {
	Since     time.Time   `json:"since"`
	Until     time.Time   `json:"until"`
	Allowed   []uint64    `json:"allowed"` // per slice of the time, oldest first
	Denied    []uint64    `json:"denied"`
	Lost      uint64      `json:"lost"`      // records that gaps stand for
	TopDenied []HostCount `json:"topDenied"` // most often denied first
}

// HostCount is how often a host was tried.
type HostCount struct {
	Host  string `json:"host"`
	Count uint64 `json:"count"`
}

// Summarise counts what fits the filter between its Since and Until, which must be given, in slices of equal length,
// and names the hosts denied most.
func Summarise(ctx context.Context, db *sql.DB, f Filter, slices, top int) (Summary, error) {
	s := Summary{
		Since: f.Since.UTC(), Until: f.Until.UTC(), TopDenied: []HostCount{},
		Allowed: make([]uint64, slices), Denied: make([]uint64, slices),
	}
	where, args := f.where()
	width := max(f.Until.Sub(f.Since).Microseconds()/int64(slices), 1)
	err := eachRow(ctx, db, `SELECT least((epoch_us(time) - ?) // ?, ?) AS slice,
			count(*) FILTER (verdict = 'allowed'), count(*) FILTER (verdict = 'denied'),
			coalesce(sum(lost), 0)::UBIGINT
		FROM `+store.Table+` WHERE `+where+` GROUP BY slice`,
		append([]any{f.Since.UnixMicro(), width, slices - 1}, args...),
		func(rows *sql.Rows) error {
			var slice int
			var allowed, denied, lost uint64
			if err := rows.Scan(&slice, &allowed, &denied, &lost); err != nil {
				return err
			}
			s.Allowed[slice], s.Denied[slice] = allowed, denied
			s.Lost += lost
			return nil
		})
	if err != nil {
		return s, err
	}
	err = eachRow(ctx, db, `SELECT host, count(*) AS n FROM `+store.Table+` WHERE verdict = 'denied' AND host <> '' AND `+
		where+` GROUP BY host ORDER BY n DESC, host LIMIT ?`, append(args, top),
		func(rows *sql.Rows) error {
			var h HostCount
			err := rows.Scan(&h.Host, &h.Count)
			s.TopDenied = append(s.TopDenied, h)
			return err
		})
	return s, err
}

func eachRow(ctx context.Context, db *sql.DB, query string, args []any, f func(*sql.Rows) error) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("audit summary: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return fmt.Errorf("audit summary: %w", err)
		}
	}
	return rows.Err()
}
