package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RollupsTable is a view of what the records of each Period add up to: who sent how much where, and what became of it, by which rule. It has the records
// that came in up to a moment, which rollupsState knows (gather.go); a reader adds the others (query.Filter.Sums). Its rows are nothing but what
// the records say: they go with them (retention.go), and are made anew from them where they are missing.
const RollupsTable = "rollups"

// RollupsTable is made of rollupRows, which has the times and numbers, and of rollupKinds, which has what they are of, once for all times, under
// the number (id) by which a row names it (kind). Versions of before had it all in one table.
const (
	rollupRows  = "rollup_rows"
	rollupKinds = "rollup_kinds"
)

// Period is that of a row. It divides hours and days as UTC has them.
const Period = 15 * time.Minute

// rollupsState has one row: up to which moment of coming in RollupsTable has the records (until), and up to which its rows were merged (merged).
const rollupsState = "rollups_state"

// rolled are the columns that rows of RollupsTable share with the records that they are of, as these have them. What differs from request to
// request is not among them, nor are pods, of which there may be a thousand to a workload.
var rolled = []string{
	"class", "verdict", "path", "reporter", "direction", "principal", "namespace", "service_account", "host", "port", "protocol", "destination_namespace",
	"decided_by_kind", "decided_by_namespace", "decided_by_name", "decided_by_rule", "reason",
	"allowed_by_kind", "allowed_by_namespace", "allowed_by_name", "allowed_by_rule",
	"would_deny_kind", "would_deny_namespace", "would_deny_name", "would_deny_rule",
}

// Rolled says whether RollupsTable tells records apart by a column.
func Rolled(column string) bool { return slices.Contains(rolled, column) }

// rollupColumns are the view's: those of rollupRows, where the number of a kind stands in the place of those of rollupKinds.
var rollupColumns = slices.Concat(rollupTimes, kindColumns, rollupNumbers)

var rollupTimes = []inputColumn{{"began", "TIMESTAMPTZ", periodOfTime, ""}}

// periodOfTime is when the Period of a record's time began.
var periodOfTime = func() string {
	micros := Period.Microseconds()
	return fmt.Sprintf("to_timestamp((epoch_us(time) // %d * %d)::DOUBLE)", micros, micros/1_000_000)
}()

var kindColumns = func() (out []inputColumn) {
	for _, name := range rolled {
		kind := "VARCHAR"
		if name == "port" {
			kind = "UINTEGER"
		}
		out = append(out, inputColumn{name, kind, name, ""})
	}
	return append(out, inputColumn{"workload", "VARCHAR", NamedByPod, ""})
}()

var rollupsKinds = kinds{rollupKinds, kindColumns}

var rollupNumbers = []inputColumn{
	{"records", "UBIGINT", "count(*)", total("records")},
	{"lost", "UBIGINT", total("lost"), total("lost")},
	{"bytes_sent", "UBIGINT", total("bytes_sent"), total("bytes_sent")},
	{"bytes_received", "UBIGINT", total("bytes_received"), total("bytes_received")},
	{"first", "TIMESTAMPTZ", "min(time)", "min(first)"},
	{"last", "TIMESTAMPTZ", "max(time)", "max(last)"},
	{ingestedColumn, "TIMESTAMPTZ", "max(" + ingestedColumn + ")", "max(" + ingestedColumn + ")"},
}

// rollupRowColumns are those of rollupRows.
var rollupRowColumns = slices.Concat(rollupTimes, []inputColumn{{name: "kind", kind: "UBIGINT"}}, rollupNumbers)

// names lists columns.
func names(columns []inputColumn) string {
	var list []string
	for _, c := range columns {
		list = append(list, c.name)
	}
	return strings.Join(list, ", ")
}

// createRollups are statements that make the tables, with nothing in them, and the view.
func createRollups() []string {
	return []string{
		rollupsKinds.create(),
		createTable(rollupRows, rollupRowColumns),
		"CREATE VIEW " + RollupsTable + " AS SELECT " + names(rollupColumns) + " FROM " + rollupRows + " JOIN " + rollupKinds + " ON id = kind",
	}
}

// NamedByPod is a record's pod where nothing else names the workload, and nothing where an account does.
const NamedByPod = "CASE WHEN coalesce(service_account, '') = '' THEN workload END"

// byPlace is the order in which rows are written: those of one time are together, and of those, those of a workload.
const byPlace = " ORDER BY began, kind"

// RolledUntil is the moment up to which RollupsTable has what came in; some is false where there is no such table, as in a folder that
// nobody wrote since there is.
func RolledUntil(ctx context.Context, db queryer) (until time.Time, some bool, err error) {
	version, _, err := inputsAt(ctx, db)
	if err != nil || version != inputsVersion {
		return until, false, err
	}
	err = db.QueryRowContext(ctx, "SELECT greatest(until, TIMESTAMPTZ '0001-01-01') FROM "+rollupsState).Scan(&until)
	if errors.Is(err, sql.ErrNoRows) {
		return until, false, nil
	}
	if err != nil {
		return until, false, fmt.Errorf("audit store: read the table %s: %w", rollupsState, err)
	}
	return until.UTC(), true, nil
}

// fillRollups adds what some records add up to.
func fillRollups(ctx context.Context, conn *sql.Conn, condition string, args ...any) error {
	of := chosen{condition, "true", args}
	whole, err := of.withoutNumbers(ctx, conn)
	if err != nil {
		return err
	}
	if !whole {
		return fillNumbered(ctx, conn, of)
	}
	rows, err := addedUp(ctx, conn, rollupColumns, of)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "CREATE TEMP TABLE added AS "+rows, args...); err != nil {
		return err
	}
	return execute(ctx, conn,
		rollupsKinds.add("added"),
		"INSERT INTO "+rollupRows+" SELECT "+names(rollupTimes)+", id AS kind, "+names(rollupNumbers)+" FROM added JOIN "+rollupKinds+" ON "+rollupsKinds.is("added")+byPlace,
		"DROP TABLE added",
	)
}

// fillNumbered is fillRollups of records that name their parts. Parts that are one in all that roll-ups tell apart get one number, so that records are added up by
// numbers alone; texts are read and compared once for each kind, of which there are few, and not for each row.
func fillNumbered(ctx context.Context, conn *sql.Conn, of chosen) error {
	var grouped []string
	for _, c := range slices.Concat(rollupTimes, rollupNumbers) {
		grouped = append(grouped, c.from+" AS "+c.name)
	}
	for i, p := range parts {
		if err := numberParts(ctx, conn, i, of, "min(id) OVER (PARTITION BY "+toldApart(p)+") AS one", "true"); err != nil {
			return err
		}
		grouped = append(grouped, same(i)+".one AS "+p.id)
	}
	if _, err := conn.ExecContext(ctx, "CREATE TEMP TABLE grouped AS SELECT "+strings.Join(grouped, ", ")+" FROM "+RowsTable+joinNumbered()+" WHERE "+of.came+" GROUP BY ALL", of.args...); err != nil { //nolint:gosec // G202: names and conditions are ours
		return err
	}
	var kind []string
	for _, c := range kindColumns {
		kind = append(kind, c.from+" AS "+c.name)
	}
	return execute(ctx, conn, append([]string{
		"CREATE TEMP TABLE kinds AS SELECT " + byParts + ", " + strings.Join(kind, ", ") + " FROM (SELECT DISTINCT " + byParts + " FROM grouped)" + join(parts),
		rollupsKinds.add("kinds"),
		"INSERT INTO " + rollupRows + " SELECT " + names(rollupTimes) + ", kind, " + names(rollupNumbers) + " FROM grouped" + rollupsKinds.of("kinds", byParts) + byPlace,
		"DROP TABLE grouped", "DROP TABLE kinds",
	}, dropNumbered()...)...)
}

// toldApart are the columns of a part by which roll-ups tell records apart.
func toldApart(p part) string {
	var list []string
	for _, name := range rolled {
		if homeOf(name) == p.table {
			list = append(list, name)
		}
	}
	if homeOf("service_account") == p.table {
		list = append(list, NamedByPod)
	}
	return strings.Join(list, ", ")
}

// mergeRollups merges the rows of the periods of days that got some since they were merged.
func mergeRollups(ctx context.Context, conn *sql.Conn, days []string) error {
	from, err := time.Parse(time.DateOnly, days[0])
	if err != nil {
		return err
	}
	last, err := time.Parse(time.DateOnly, days[len(days)-1])
	if err != nil {
		return err
	}
	const of = "began >= ? AND began < ? AND began IN (SELECT DISTINCT began FROM " + rollupRows + " WHERE began >= ? AND began < ? AND " + ingestedColumn + " > (SELECT merged FROM " + rollupsState + "))"
	until := last.Add(24 * time.Hour)
	for _, statement := range []string{"CREATE TEMP TABLE several AS SELECT * FROM " + rollupRows + " WHERE " + of, "DELETE FROM " + rollupRows + " WHERE " + of} {
		if _, err := conn.ExecContext(ctx, statement, from, until, from, until); err != nil {
			return err
		}
	}
	return execute(ctx, conn, "INSERT INTO "+rollupRows+" "+mergedFrom("several", rollupRowColumns)+byPlace, "DROP TABLE several")
}

// aheadPeriods is a temporary table of periods: of the records that are deleted though they say that they are of later.
const aheadPeriods = "ahead_periods"

// outdated are the rows that have records which are deleted: of the times up to a moment, and of aheadPeriods.
type outdated struct {
	until       time.Time
	first, last sql.NullTime // of aheadPeriods; not valid where there are none
}

// noteAhead makes aheadPeriods, of the records before a moment for which a condition holds.
func noteAhead(ctx context.Context, conn *sql.Conn, old string, args []any, before time.Time) (o outdated, err error) {
	o.until = before.Truncate(Period).Add(Period)
	_, err = conn.ExecContext(ctx, "CREATE TEMP TABLE "+aheadPeriods+" AS SELECT DISTINCT "+periodOfTime+" AS began FROM "+Arrivals+old+" AND time >= ?", append(args[:len(args):len(args)], o.until)...)
	if err == nil {
		err = conn.QueryRowContext(ctx, "SELECT min(began), max(began) FROM "+aheadPeriods).Scan(&o.first, &o.last)
	}
	return o, err
}

// remake makes them anew, from the records that are left of those that they had.
func (o outdated) remake(ctx context.Context, conn *sql.Conn) error {
	const gathered = " AND " + ingestedColumn + " <= (SELECT max(until) FROM " + rollupsState + ")"
	if _, err := conn.ExecContext(ctx, "DELETE FROM "+rollupRows+" WHERE began < ?", o.until); err != nil {
		return err
	}
	if err := fillRollups(ctx, conn, "time < ?"+gathered, o.until); err != nil || !o.first.Valid {
		return err
	}
	const of = " IN (SELECT began FROM " + aheadPeriods + ")"
	first, end := o.first.Time.UTC(), o.last.Time.UTC().Add(Period)
	if _, err := conn.ExecContext(ctx, "DELETE FROM "+rollupRows+" WHERE began >= ? AND began < ? AND began"+of, first, end); err != nil {
		return err
	}
	return fillRollups(ctx, conn, "time >= ? AND time < ? AND "+periodOfTime+of+gathered, first, end)
}
