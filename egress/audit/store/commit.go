package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// commit writes the new records of the batches, and which numbers the store has with them, in one transaction; copies says that another
// store has them all.
func (s *Store) commit(ctx context.Context, batches [][]record.Record, copies bool) error {
	news, changed := s.seen.fresh(batches...)
	total := 0
	for _, b := range batches {
		total += len(b)
	}
	if len(news) == 0 {
		s.copies.Add(uint64(total))
		return nil
	}
	now := s.moment()
	records := make([]driver.Value, 0, len(s.layout))
	err := transact(ctx, s.db, func(conn *sql.Conn) error {
		return conn.Raw(func(raw any) error {
			err := appendRows(raw, Table, len(news), func(i int) []driver.Value {
				records = s.layout.row(records, &news[i], now)
				return records
			})
			if err != nil {
				return err
			}
			if copies {
				if err := appendRows(raw, copiesTable, 1, func(int) []driver.Value { return []driver.Value{now} }); err != nil {
					return err
				}
			}
			spools := s.seen.rows(changed, now)
			return appendRows(raw, "spools", len(spools), func(i int) []driver.Value { return spools[i] })
		})
	})
	if err != nil {
		return s.fail("write records", err)
	}
	s.lastIn = now
	s.seen.keep(changed)
	s.stored.Add(uint64(len(news)))
	s.copies.Add(uint64(total - len(news)))
	s.followers.publish(news)
	s.gatherer.note(len(news))
	return nil
}

// moment is when records come in that are stored now: later than all that there are, also when the clock was put back.
func (s *Store) moment() time.Time {
	now := s.options.Now().UTC().Truncate(time.Microsecond) // as the table keeps it
	if !now.After(s.lastIn) {
		now = s.lastIn.Add(time.Microsecond)
	}
	return now
}

// lastIngested is when the last records came in, of those that there are and of those that are gathered; the zero time where there are none.
func lastIngested(ctx context.Context, db *sql.DB) (time.Time, error) {
	_, until, err := inputsAt(ctx, db)
	var last sql.NullTime
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT max("+ingestedColumn+") FROM "+Table).Scan(&last)
	}
	if err != nil {
		return until, fmt.Errorf("audit store: when the last records came in: %w", err)
	}
	if last.Time.After(until) {
		until = last.Time
	}
	return until.UTC(), nil
}

// appendRows appends n rows to a table by DuckDB's appender, within the transaction of the connection that sql.Conn.Raw gave.
func appendRows(raw any, table string, n int, row func(i int) []driver.Value) error {
	appender, err := duck.Appender(raw, table)
	if err != nil {
		return err
	}
	for i := range n {
		if err := appender.AppendRow(row(i)...); err != nil {
			return errors.Join(err, appender.Close())
		}
	}
	return appender.Close()
}

// isFatal says whether DuckDB has given the database up.
func isFatal(err error) bool {
	var e *duckdb.Error
	return errors.As(err, &e) && (e.Type == duckdb.ErrorTypeFatal || e.Type == duckdb.ErrorTypeInternal)
}

// IsLocked says whether an error of Open means that another process has the database open.
func IsLocked(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Could not set lock")
}
