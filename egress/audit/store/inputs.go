package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// InputsTable has the distinct inputs of the records, by day: what package inputs describes. It is made from the records, and has
// those that came in up to a moment, which inputsState knows (gather.go); a reader adds the others (EachInput). Rows that differ in
// their numbers alone are the same input. It has a day, a path and numbers; what else an input is stands in InputKinds, once for all days and paths.
const (
	InputsTable = "inputs"
	InputKinds  = "input_kinds"
)

// inputsState has one row: which version of InputsTable there is, up to which moment of coming in it has the records (until), and up
// to which its rows were merged (merged).
const inputsState = "inputs_state"

// inputsVersion is that of InputsTable and of what is made beside it, SightingsTable and RollupsTable: a folder with another one has them made
// anew from the records, so that a version that knows less of them may have written meanwhile.
const (
	inputsVersion      = 6
	beforeSightingRows = 5 // the same inputs
	beforeInputKinds   = 4 // the same roll-ups
)

// What is told apart of one day's inputs of an account. What is more is counted.
const (
	maxPaths  = 200    // of one host, port and method: by path and address dialled
	maxInputs = 20_000 // of all
)

// inputColumn is a column of InputsTable, or of another table of what records add up to.
type inputColumn struct {
	name, kind string
	// from makes it of records, all of which are one input; merged, of rows that are one. Where merged is "", they agree in it.
	from, merged string
}

// inputColumns are the table's, in the order of EachInput.
var inputColumns = []inputColumn{
	{"day", "DATE", BelievedDay, ""},
	told("namespace"), told("service_account"), told("workload"), told("labels"), told("claim"), told("reporter"), told("direction"),
	told("class"), told("protocol"), told("host"),
	{"sni", "VARCHAR", "CASE WHEN sni <> host THEN sni ELSE '' END", ""},
	{"port", "UINTEGER", "port", ""},
	told("method"), told("url_path"), told("dialled"), told("cut"),
	{"beyond", "VARCHAR", "''", ""},
	told("verdict"), told("path"), object("decided_by"), object("allowed_by"), object("would_deny"),
	{"reason", "VARCHAR", "CASE WHEN verdict = 'denied' AND coalesce(decided_by_kind, '') = '' AND class <> 'dns' THEN reason ELSE '' END", ""},
	{"records", "UBIGINT", "count(*)", total("records")},
	{"lost", "UBIGINT", total("lost"), total("lost")},
	{"first", "TIMESTAMPTZ", "min(" + BelievedTime + ")", "min(first)"},
	{"last", "TIMESTAMPTZ", "max(" + BelievedTime + ")", "max(last)"},
	{"replicas", "UINTEGER", "1", "max(replicas)"},
	{"bytes_sent", "UBIGINT", total("bytes_sent"), total("bytes_sent")},
	{"bytes_received", "UBIGINT", total("bytes_received"), total("bytes_received")},
	{ingestedColumn, "TIMESTAMPTZ", "max(" + ingestedColumn + ")", "max(" + ingestedColumn + ")"},
}

// inputRowColumns are InputsTable's, but for kind; inputKindColumns those of InputKinds, but for their number.
var inputRowColumns, inputKindColumns = func() (rows, kind []inputColumn) {
	for _, c := range inputColumns {
		if c.merged != "" || perRecord[c.name] {
			rows = append(rows, c)
		} else {
			kind = append(kind, c)
		}
	}
	return rows, kind
}()

var inputsKinds = kinds{InputKinds, inputKindColumns}

// allInputs is a relation of InputsTable with all columns.
const allInputs = InputsTable + ofInputKinds

// ofInputKinds puts to rows what their kinds are.
const ofInputKinds = " JOIN " + InputKinds + " ON id = kind"

// BelievedTime is a record's time where it can be right, the nearest to it otherwise: a proxy whose clock is wrong, or which lies, makes no
// days. What is done for each record is done with numbers: DuckDB asks a calendar to add an interval to a moment, or to make a day of it.
const BelievedTime = "CASE WHEN epoch_us(time) < epoch_us(" + ingestedColumn + ") - 30 * 86400000000 THEN " + ingestedColumn + " - INTERVAL 30 DAY" +
	" WHEN epoch_us(time) > epoch_us(" + ingestedColumn + ") + 86400000000 THEN " + ingestedColumn + " + INTERVAL 1 DAY ELSE time END"

// believedAhead is how much later than when a record came in its BelievedTime is at most.
const believedAhead = 24 * time.Hour

// BelievedDay is the day of BelievedTime, in UTC.
const BelievedDay = "(DATE '1970-01-01' + (epoch_us(" + BelievedTime + ") // 86400000000)::INTEGER)"

// replica is a regular expression of what Kubernetes adds to a workload's name to name a pod: the hash of a ReplicaSet, or the minute of a
// CronJob, and five characters; or the number in a StatefulSet.
const replica = `((-[bcdfghjklmnpqrstvwxz2456789]{6,10}|-[0-9]{8,10})?-[bcdfghjklmnpqrstvwxz2456789]{5}|-[0-9]+)$`

// byWhoSent leaves out what destinations tell of who came to them: no sender's word, and nothing that is decided where it is sent.
const byWhoSent = "coalesce(reporter, '') <> '" + record.ReporterDestination + "'"

// told is a column of a record's text.
func told(name string) inputColumn {
	return inputColumn{name, "VARCHAR", "coalesce(" + name + ", '')", ""}
}

// object is a column with an object of the record: KIND/NAMESPACE/NAME/REVISION/RULE, or "".
func object(name string) inputColumn {
	var parts []string
	for _, part := range []string{"_kind", "_namespace", "_name", "_revision", "_rule"} {
		parts = append(parts, "coalesce("+name+part+", '')")
	}
	return inputColumn{name, "VARCHAR", "CASE WHEN coalesce(" + name + "_kind, '') = '' THEN '' ELSE " + strings.Join(parts, " || '/' || ") + " END", ""}
}

// total is a sum that stays within its column, whatever proxies claim.
func total(name string) string { return schema.Total(name, "") }

// chosen are records that are added up: by a condition on what RowsTable has, with its parameters, and by one on all columns.
type chosen struct {
	came, fits string
	args       []any // of came
}

// perRecord are the columns that tell rows apart by what RowsTable has.
var perRecord = map[string]bool{"day": true, "began": true, "url_path": true}

// withoutNumbers says whether records are among them that name no parts.
func (of chosen) withoutNumbers(ctx context.Context, db queryer) (whole bool, err error) {
	kept, err := hasTable(ctx, db, WholeTable) // what is read of the lake is one relation
	whole = !kept
	if err == nil && kept {
		err = db.QueryRowContext(ctx, "SELECT EXISTS (FROM "+Others+" WHERE "+of.came+")", of.args...).Scan(&whole)
	}
	return whole, err
}

// addedUp is a SELECT of what records add up to. Those that have all their parts in common are added up first, by the numbers of these; only then are
// texts compared. Where there are others among them, which have no such numbers, texts are compared of all.
func addedUp(ctx context.Context, db queryer, columns []inputColumn, of chosen) (string, error) {
	whole, err := of.withoutNumbers(ctx, db)
	if err != nil {
		return "", err
	}
	var first, then []string
	for _, c := range columns {
		switch from := c.from + " AS " + c.name; {
		case whole:
			then = append(then, from)
		case c.merged != "" || perRecord[c.name]:
			first, then = append(first, from), append(then, c.merge())
		default:
			then = append(then, from)
		}
	}
	if whole {
		return "SELECT " + strings.Join(then, ", ") + " FROM " + Table + " WHERE " + of.came + " AND " + of.fits + " GROUP BY ALL", nil
	}
	for _, p := range parts {
		first = append(first, p.id)
	}
	return "SELECT " + strings.Join(then, ", ") + " FROM (SELECT " + strings.Join(first, ", ") + " FROM " + RowsTable + " WHERE " + of.came + " GROUP BY ALL)" + join(parts) +
		" WHERE " + of.fits + " GROUP BY ALL", nil
}

// gathered is a SELECT of the inputs of records.
func gathered(ctx context.Context, db queryer, of chosen) (string, error) {
	of.fits += " AND " + byWhoSent + " AND class <> '" + string(record.Action) + "'"
	pods, err := addedUp(ctx, db, inputColumns, of)
	var merged []string
	for _, c := range inputColumns {
		switch c.name {
		case "workload":
			merged = append(merged, "regexp_replace(workload, '"+replica+"', '') AS workload")
		case "replicas": // what is left to tell the rows apart is the pod
			merged = append(merged, "count(*)::UINTEGER AS replicas")
		default:
			merged = append(merged, c.merge())
		}
	}
	return "SELECT " + strings.Join(merged, ", ") + " FROM (" + pods + ") GROUP BY ALL", err
}

// merge is the column in a SELECT of rows that are one input.
func (c inputColumn) merge() string {
	if c.merged == "" {
		return c.name
	}
	return c.merged + " AS " + c.name
}

// mergedFrom is a SELECT that makes one row of the rows of a relation that agree in all but their numbers.
func mergedFrom(relation string, columns []inputColumn) string {
	var list []string
	for _, c := range columns {
		list = append(list, c.merge())
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + relation + " GROUP BY ALL"
}

// prepareInputs makes the tables where they are missing, or of another version.
func prepareInputs(ctx context.Context, db *sql.DB) error {
	version, _, err := inputsAt(ctx, db)
	if err != nil || version == inputsVersion {
		return err
	}
	if version == beforeSightingRows {
		return makeSightings(ctx, db)
	}
	statements := []string{
		"DROP TABLE IF EXISTS sightings", // which had texts
		"DROP TABLE IF EXISTS " + InputsTable, "DROP TABLE IF EXISTS " + InputKinds, "DROP TABLE IF EXISTS " + inputsState, "DROP TABLE IF EXISTS " + SightingsTable,
		createTable(InputsTable, append([]inputColumn{{name: "kind", kind: "UBIGINT"}}, inputRowColumns...)), inputsKinds.create(),
		createSightings(),
		"CREATE TABLE " + inputsState + " (version INTEGER, until TIMESTAMPTZ, merged TIMESTAMPTZ)",
		fmt.Sprintf("INSERT INTO %s VALUES (%d, '-infinity', '-infinity')", inputsState, inputsVersion),
	}
	if version != beforeInputKinds {
		var rollups []string
		rollups, err = emptyRollups(ctx, db)
		statements = append(statements, rollups...)
	}
	if err == nil {
		err = transact(ctx, db, func(conn *sql.Conn) error { return execute(ctx, conn, statements...) })
	}
	if err != nil {
		return fmt.Errorf("audit store: make the tables of what records add up to: %w", err)
	}
	return nil
}

// makeSightings makes SightingsTable of a folder that has all inputs.
func makeSightings(ctx context.Context, db *sql.DB) error {
	if err := transact(ctx, db, func(conn *sql.Conn) error {
		return execute(ctx, conn, "DROP TABLE IF EXISTS sightings", "DROP TABLE IF EXISTS "+SightingsTable, createSightings(), addSightings(InputsTable, "kind", ""),
			fmt.Sprintf("UPDATE %s SET version = %d", inputsState, inputsVersion))
	}); err != nil {
		return fmt.Errorf("audit store: make the table %s: %w", SightingsTable, err)
	}
	return nil
}

// emptyRollups are statements that make the tables of roll-ups, with nothing in them, in the place of those of any version.
func emptyRollups(ctx context.Context, db queryer) ([]string, error) {
	table, err := hasTable(ctx, db, RollupsTable) // as it was once
	drop := "DROP VIEW IF EXISTS "
	if table {
		drop = "DROP TABLE "
	}
	statements := []string{drop + RollupsTable, "DROP TABLE IF EXISTS " + rollupRows, "DROP TABLE IF EXISTS " + rollupKinds, "DROP TABLE IF EXISTS " + rollupsState}
	return append(append(statements, createRollups()...),
		"CREATE TABLE "+rollupsState+" (until TIMESTAMPTZ, merged TIMESTAMPTZ)",
		"INSERT INTO "+rollupsState+" VALUES ('-infinity', '-infinity')"), err
}

func createTable(name string, columns []inputColumn) string {
	var list []string
	for _, c := range columns {
		list = append(list, c.name+" "+c.kind)
	}
	return "CREATE TABLE " + name + " (" + strings.Join(list, ", ") + ")"
}

// inputsAt reads the version of a database's inputs, and up to which moment they have the records; 0 where there are none.
func inputsAt(ctx context.Context, db queryer) (version int, until time.Time, err error) {
	var there bool
	err = db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM duckdb_tables() WHERE table_name = '"+inputsState+"'").Scan(&there)
	if err == nil && there {
		err = db.QueryRowContext(ctx, "SELECT version, greatest(until, TIMESTAMPTZ '0001-01-01') FROM "+inputsState).Scan(&version, &until)
	}
	if err != nil {
		return 0, until, fmt.Errorf("audit store: read the table %s: %w", inputsState, err)
	}
	return version, until, nil
}
