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
func (s *Store) commit(batches [][]record.Record, copies bool) error {
	now := s.moment()
	news, changed := s.seen.fresh(now, batches...)
	total, added := 0, 0
	for _, b := range batches {
		total += len(b)
	}
	for _, n := range news {
		added += len(n)
	}
	if added == 0 {
		s.copies.Add(uint64(total))
		return nil
	}
	err := s.writer.Transact(func() error {
		err := s.append(news, now)
		if err == nil && copies {
			err = s.writer.Append(copiesTable, 1, func(_ int, columns []duck.Vector, at int) { columns[0].Time(at, now) })
		}
		if err != nil {
			return err
		}
		return appendSpools(s.writer, changed)
	})
	for _, d := range s.dictionaries {
		d.end(err == nil)
	}
	if err != nil {
		return s.fail("write records", err)
	}
	s.lastIn = now
	s.seen.keep(changed)
	s.stored.Add(uint64(added))
	s.copies.Add(uint64(total - added))
	for _, n := range news {
		s.followers.publish(n)
	}
	s.gatherer.note(added)
	return nil
}

// append writes records, and what they are the first to name.
func (s *Store) append(batches [][]record.Record, now time.Time) error {
	var rows, whole []*record.Record
	var numbers []uint64 // of the parts of each of rows
	for _, d := range s.dictionaries {
		d.begin(now)
	}
	for _, batch := range batches {
		for i := range batch {
			r, all := &batch[i], false
			if r.Seq < numbered {
				numbers, all = s.number(numbers, r)
			}
			if all {
				rows = append(rows, r)
			} else {
				whole = append(whole, r)
			}
		}
	}
	r := row{ingested: now}
	err := s.writer.Append(RowsTable, len(rows), func(i int, columns []duck.Vector, at int) {
		r.Record, r.parts, r.nth = rows[i], numbers[i*len(parts):][:len(parts)], s.nth+int64(i)
		s.layout.put(&r, columns, at)
	})
	s.nth += int64(len(rows)) // also where they are not committed: nobody counts by it
	if err == nil && len(whole) > 0 {
		err = s.writer.Append(WholeTable, len(whole), func(i int, columns []duck.Vector, at int) {
			r.Record = whole[i]
			s.wholes.put(&r, columns, at)
		})
	}
	for _, d := range s.dictionaries {
		if err == nil {
			err = d.append(s.writer, now)
		}
	}
	return err
}

// number appends the numbers of a record's parts; where one of them finds no room it appends none, and gives none.
func (s *Store) number(numbers []uint64, r *record.Record) (with []uint64, all bool) {
	begun := len(numbers)
	for i, d := range s.dictionaries {
		id, some := d.number(r)
		if !some {
			for _, before := range s.dictionaries[:i] {
				before.takeBack()
			}
			return numbers[:begun], false
		}
		numbers = append(numbers, id)
	}
	return numbers, true
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
		err = db.QueryRowContext(ctx, "SELECT max("+ingestedColumn+") FROM "+Arrivals).Scan(&last)
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
