package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// ingestedColumn is what Table has beside a record's columns: when it came in.
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

// row is what is put into a row of RowsTable, of a part's table, or of WholeTable.
type row struct {
	*record.Record
	ingested time.Time
	id       uint64   // of the part, in its table
	parts    []uint64 // in RowsTable
	nth      int64    // there
}

// place puts one value of a row.
type place func(r *row, to *duck.Vector, at int)

// layout is the order of a table's columns.
type layout []place

// put puts a row's values into the columns.
func (l layout) put(r *row, columns []duck.Vector, at int) {
	for i, put := range l {
		put(r, &columns[i], at)
	}
}

// layoutOf reads the order of a table's columns: those that a later version added stand behind the others.
func layoutOf(ctx context.Context, db interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}, table string) (layout, error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		return nil, fmt.Errorf("audit store: read the columns of the table %s: %w", table, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, fmt.Errorf("audit store: read the columns of the table %s: %w", table, err)
	}
	missing := columnsOf(table)
	var out layout
	for _, name := range names {
		put, known := missing[name]
		if !known {
			return nil, fmt.Errorf("audit store: the table %s has a column %q that this version of sallyport does not know: remove it, or use another folder", table, name)
		}
		delete(missing, name)
		out = append(out, put)
	}
	for name := range missing {
		return nil, fmt.Errorf("audit store: the table %s has no column %q: somebody changed it; use another folder", table, name)
	}
	return out, rows.Err()
}

// columnsOf are the columns of a table of records, or of a part's, by their names.
func columnsOf(table string) map[string]place {
	out := map[string]place{}
	for i := range schema.Columns {
		if c := &schema.Columns[i]; table == WholeTable || c.Name != "source" && homeOf(c.Name) == table {
			out[c.Name] = func(r *row, to *duck.Vector, at int) { c.Put(r.Record, to, at) }
		}
	}
	came := func(r *row, to *duck.Vector, at int) { to.Time(at, r.ingested) }
	if homeOf("source") == table {
		out[sourceAddress] = func(r *row, to *duck.Vector, at int) {
			address, _, _ := splitSource(r.Source)
			to.Text(at, address, schema.Storable)
		}
	}
	switch table {
	case WholeTable:
		out[ingestedColumn] = came
		out["duration_ns"] = func(r *row, to *duck.Vector, at int) {
			to.Number64(at, uint64(r.Duration.Truncate(time.Microsecond))) // as a row has it
		}
	case RowsTable:
		delete(out, "seq")
		delete(out, "duration_ns")
		out[ingestedColumn] = came
		out[nthColumn] = func(r *row, to *duck.Vector, at int) { to.Number64(at, uint64(r.nth)) }
		out[aheadColumn] = func(r *row, to *duck.Vector, at int) { to.Number64(at, r.Seq-uint64(r.nth)) }
		out[microseconds] = func(r *row, to *duck.Vector, at int) { to.Number64(at, uint64(r.Duration.Microseconds())) }
		out[sourcePort] = func(r *row, to *duck.Vector, at int) {
			if _, port, some := splitSource(r.Source); some {
				to.Number32(at, port)
			} else {
				to.Null(at)
			}
		}
		for i, p := range parts {
			out[p.id] = func(r *row, to *duck.Vector, at int) { to.Number64(at, r.parts[i]) }
		}
	default:
		out["id"] = func(r *row, to *duck.Vector, at int) { to.Number64(at, r.id) }
		out["since"] = came
	}
	return out
}
