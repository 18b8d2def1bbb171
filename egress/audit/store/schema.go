package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Table is the name of the table of records. Its columns are these, in this order.
const Table = "records"

// A column ties a column of the table to a field of the record.
type column struct {
	name, sqlType string
	value         func(r *record.Record) driver.Value
}

func text(name string, field func(*record.Record) string) column {
	return column{name, "VARCHAR", func(r *record.Record) driver.Value { return storable(field(r)) }}
}

// storable makes a text of what others wrote: DuckDB takes valid UTF-8 only, and its driver ends a text at a NUL.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func number(name, sqlType string, field func(*record.Record) driver.Value) column {
	return column{name, sqlType, field}
}

var columns = []column{
	text("proxy", func(r *record.Record) string { return r.Proxy }),
	number("epoch", "UBIGINT", func(r *record.Record) driver.Value { return r.Epoch }),
	number("seq", "UBIGINT", func(r *record.Record) driver.Value { return r.Seq }),
	number("time", "TIMESTAMPTZ", func(r *record.Record) driver.Value { return r.Time.UTC() }),
	text("class", func(r *record.Record) string { return string(r.Class) }),
	text("verdict", func(r *record.Record) string { return string(r.Verdict) }),
	text("path", func(r *record.Record) string { return r.Path }),
	text("reporter", func(r *record.Record) string { return r.Reporter }),
	text("principal", func(r *record.Record) string { return r.Workload.Principal }),
	text("namespace", func(r *record.Record) string { return r.Workload.Namespace }),
	text("service_account", func(r *record.Record) string { return r.Workload.ServiceAccount }),
	text("workload", func(r *record.Record) string { return r.Workload.Name }),
	text("source", func(r *record.Record) string { return r.Source }),
	text("host", func(r *record.Record) string { return r.Host }),
	number("port", "UINTEGER", func(r *record.Record) driver.Value { return r.Port }),
	text("sni", func(r *record.Record) string { return r.SNI }),
	text("authority", func(r *record.Record) string { return r.Authority }),
	text("destination", func(r *record.Record) string { return r.Destination }),
	text("protocol", func(r *record.Record) string { return r.Protocol }),
	text("method", func(r *record.Record) string { return r.Method }),
	text("url_path", func(r *record.Record) string { return r.URLPath }),
	number("status", "UINTEGER", func(r *record.Record) driver.Value { return r.Status }),
	text("cluster", func(r *record.Record) string { return r.Cluster }),
	text("route", func(r *record.Record) string { return r.Route }),
	text("decided_by_kind", func(r *record.Record) string { return r.DecidedBy.Kind }),
	text("decided_by_namespace", func(r *record.Record) string { return r.DecidedBy.Namespace }),
	text("decided_by_name", func(r *record.Record) string { return r.DecidedBy.Name }),
	text("decided_by_rule", func(r *record.Record) string { return r.DecidedBy.Rule }),
	text("reason", func(r *record.Record) string { return r.Reason }),
	number("bytes_sent", "UBIGINT", func(r *record.Record) driver.Value { return r.BytesSent }),
	number("bytes_received", "UBIGINT", func(r *record.Record) driver.Value { return r.BytesReceived }),
	number("duration_ns", "BIGINT", func(r *record.Record) driver.Value { return int64(r.Duration) }),
	text("flags", func(r *record.Record) string { return strings.Join(r.Flags, ",") }),
	number("lost", "UBIGINT", func(r *record.Record) driver.Value { return r.Count }), // of gaps
}

// The table has one column more: when the record came in.
const ingestedColumn = "ingested"

// laterColumns stand behind that one in the table: they were added to it after the first release.
var laterColumns = []column{
	text("claim", func(r *record.Record) string { return r.Claim }),
	text("forwarded_for", func(r *record.Record) string { return r.ForwardedFor }),
	text("decided_by_revision", func(r *record.Record) string { return r.DecidedBy.Revision }),
	text("cut", func(r *record.Record) string { return strings.Join(r.Cut, ",") }),
}

// allColumns are those of a record, in the order of Columns.
var allColumns = slices.Concat(columns, laterColumns)

// Columns lists the columns of a record for a SELECT whose rows ScanRecord reads.
func Columns() string {
	return strings.Join(ColumnNames(), ", ")
}

// ColumnNames lists the columns of a record.
func ColumnNames() []string {
	names := make([]string, len(allColumns))
	for i, c := range allColumns {
		names[i] = c.name
	}
	return names
}

// Values gives a record's values in the order of ColumnNames.
func Values(r *record.Record) []driver.Value {
	values := make([]driver.Value, len(allColumns))
	for i, c := range allColumns {
		values[i] = c.value(r)
	}
	return values
}

// ScanRecord reads a row of Columns. Times come back in UTC with microseconds.
func ScanRecord(rows *sql.Rows) (r record.Record, err error) {
	var flags string
	var claim, forwarded, revision, cut sql.NullString // not there in records of before these columns
	var duration int64
	err = rows.Scan(&r.Proxy, &r.Epoch, &r.Seq, &r.Time, &r.Class, &r.Verdict, &r.Path, &r.Reporter,
		&r.Workload.Principal, &r.Workload.Namespace, &r.Workload.ServiceAccount, &r.Workload.Name,
		&r.Source, &r.Host, &r.Port, &r.SNI, &r.Authority, &r.Destination, &r.Protocol, &r.Method, &r.URLPath,
		&r.Status, &r.Cluster, &r.Route, &r.DecidedBy.Kind, &r.DecidedBy.Namespace, &r.DecidedBy.Name,
		&r.DecidedBy.Rule, &r.Reason, &r.BytesSent, &r.BytesReceived, &duration, &flags, &r.Count, &claim, &forwarded, &revision, &cut)
	if err != nil {
		return r, fmt.Errorf("audit store: %w", err)
	}
	r.Time, r.Duration = r.Time.UTC(), time.Duration(duration)
	if flags != "" {
		r.Flags = strings.Split(flags, ",")
	}
	r.Claim, r.ForwardedFor = claim.String, forwarded.String
	r.DecidedBy.Revision = revision.String
	if cut.String != "" {
		r.Cut = strings.Split(cut.String, ",")
	}
	return r, nil
}

// row gives a record's values in the order of the columns.
func row(dst []driver.Value, r *record.Record, ingested time.Time) []driver.Value {
	dst = dst[:0]
	for _, c := range columns {
		dst = append(dst, c.value(r))
	}
	dst = append(dst, ingested)
	for _, c := range laterColumns {
		dst = append(dst, c.value(r))
	}
	return dst
}

func createTables(ctx context.Context, db *sql.DB) error {
	defs := make([]string, 0, len(columns)+1)
	for _, c := range columns {
		defs = append(defs, c.name+" "+c.sqlType)
	}
	defs = append(defs, ingestedColumn+" TIMESTAMPTZ")
	statements := []string{
		"CREATE TABLE IF NOT EXISTS " + Table + " (" + strings.Join(defs, ", ") + ")",
		// Append-only: the row with the highest version counts (see seen.go).
		"CREATE TABLE IF NOT EXISTS spools (proxy VARCHAR, epoch UBIGINT, version UBIGINT, spans VARCHAR, " +
			"updated TIMESTAMPTZ)",
	}
	for _, c := range laterColumns {
		statements = append(statements, "ALTER TABLE "+Table+" ADD COLUMN IF NOT EXISTS "+c.name+" "+c.sqlType)
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("audit store: create the tables: %w", err)
		}
	}
	return nil
}
