package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// Table is the name of the table of records. Its columns are schema.Columns, and ingestedColumn.
const Table = "records"

// The table has one column more: when the record came in.
const ingestedColumn = "ingested"

// Columns lists the columns of a record for a SELECT whose rows ScanRecord reads.
func Columns() string {
	list := make([]string, len(schema.Columns))
	for i := range schema.Columns {
		list[i] = schema.Columns[i].Select()
	}
	return strings.Join(list, ", ")
}

// ScanRecord reads a row of Columns. Times come back in UTC with microseconds.
func ScanRecord(rows *sql.Rows) (r record.Record, err error) {
	targets := make([]any, len(schema.Columns))
	for i := range schema.Columns {
		targets[i] = schema.Columns[i].Target(&r)
	}
	if err := rows.Scan(targets...); err != nil {
		return r, fmt.Errorf("audit store: %w", err)
	}
	return r, nil
}

// layout is the order of a table's columns: those of older versions come first, each with those that it was given later.
type layout []*schema.Column // nil is ingestedColumn

// layoutOf reads the order that a database's table has.
func layoutOf(ctx context.Context, db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}) (layout, error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+Table+" LIMIT 0")
	if err != nil {
		return nil, fmt.Errorf("audit store: read the table's columns: %w", err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("audit store: read the table's columns: %w", err)
	}
	byName := map[string]*schema.Column{}
	for i := range schema.Columns {
		byName[schema.Columns[i].Name] = &schema.Columns[i]
	}
	var out layout
	for _, name := range names {
		c, known := byName[name]
		if !known && name != ingestedColumn {
			return nil, fmt.Errorf("audit store: the table %s has a column %q that this version of sallyport does not know: remove it, or use another folder", Table, name)
		}
		out = append(out, c)
	}
	if len(out) != len(schema.Columns)+1 {
		return nil, fmt.Errorf("audit store: the table %s has %d columns instead of %d: somebody changed it; use another folder", Table, len(out), len(schema.Columns)+1)
	}
	return out, rows.Err()
}

// row gives a record's values in that order.
func (l layout) row(dst []driver.Value, r *record.Record, ingested time.Time) []driver.Value {
	dst = dst[:0]
	for _, c := range l {
		if c == nil {
			dst = append(dst, ingested)
		} else {
			dst = append(dst, c.Value(r))
		}
	}
	return dst
}

// put puts a record's values into the table's columns.
func (l layout) put(r *record.Record, ingested time.Time, columns []duck.Vector, at int) {
	for i, c := range l {
		if c == nil {
			columns[i].Time(at, ingested)
		} else {
			c.Put(r, &columns[i], at)
		}
	}
}
