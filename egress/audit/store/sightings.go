package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// SightingsTable has what InputsTable has, without what tells requests of one kind apart: a row for each day and kind, a twentieth of its rows, for those
// who ask about the whole log. Of the paths of a kind it has the first and the last in their order. Whatever writes InputsTable writes it too (gather.go).
const SightingsTable = "sighting_rows"

// sightingNumbers are its columns beside day and kind, made of rows of InputsTable (from), and of its own (merged).
var sightingNumbers = []inputColumn{
	{"first", "TIMESTAMPTZ", "min(first)", "min(first)"},
	{"last", "TIMESTAMPTZ", "max(last)", "max(last)"},
	{"records", "UBIGINT", total("records"), total("records")},
	{"replicas", "UINTEGER", "max(replicas)", "max(replicas)"},
	{"bytes_sent", "UBIGINT", total("bytes_sent"), total("bytes_sent")},
	{"bytes_received", "UBIGINT", total("bytes_received"), total("bytes_received")},
	{"least_path", "VARCHAR", "min(url_path)", "min(least_path)"},
	{"greatest_path", "VARCHAR", "max(url_path)", "max(greatest_path)"},
}

// createSightings is a statement that makes the table.
func createSightings() string {
	return createTable(SightingsTable, append([]inputColumn{{name: "day", kind: "DATE"}, {name: "kind", kind: "UBIGINT"}}, sightingNumbers...))
}

// addSightings is a statement that adds to the table what rows of InputsTable, or like them, add up to. They name their kinds by some columns, and join puts to each its kind's number.
func addSightings(rows, by, join string) string {
	first, then := []string{"day", by}, []string{"day", "kind"}
	for _, c := range sightingNumbers {
		first, then = append(first, c.from+" AS "+c.name), append(then, c.merge())
	}
	return "INSERT INTO " + SightingsTable + " SELECT " + strings.Join(then, ", ") + " FROM (SELECT " + strings.Join(first, ", ") + " FROM " + rows + " GROUP BY ALL)" + join + " GROUP BY ALL"
}

// sightingColumns are columns of Sightings.
const sightingColumns = "namespace, service_account, workload, class, protocol, host, port, method, verdict, path, decided_by, allowed_by, would_deny, day"

// Sightings is a relation with what was told apart, by day, and each record that is not gathered yet: who, what, when, how often, and the
// objects that decided, allowed or would deny it, as KIND/NAMESPACE/NAME/REVISION/RULE. It is of the transaction in which it is asked for, with a
// moment that DuckDB can leave out records by.
func Sightings(ctx context.Context, tx queryer) (relation string, err error) {
	_, until, err := inputsAt(ctx, tx)
	// Records are added up by the numbers of their parts first: in a folder whose inputs are made anew they are all that there are.
	numbers := BelievedDay + " AS day, min(" + BelievedTime + ") AS first, max(" + BelievedTime + ") AS last, count(*)::UBIGINT AS records"
	told := "SELECT coalesce(namespace, '') AS namespace, coalesce(service_account, '') AS service_account, " + podless + " AS workload, class, protocol, host, port, method, verdict, path, " +
		object("decided_by").from + " AS decided_by, " + object("allowed_by").from + " AS allowed_by, " + object("would_deny").from + " AS would_deny, "
	traffic := " WHERE class <> '" + string(record.Action) + "'"
	return "(SELECT " + sightingColumns + ", first, last, records FROM " + SightingsTable + ofInputKinds +
		" UNION ALL " + told + "day, first, last, records FROM (SELECT " + byParts + ", " + numbers + " FROM " + RowsTable + " WHERE " + cameAfter(until) + " GROUP BY ALL)" + join(parts) + traffic +
		" UNION ALL " + told + BelievedDay + ", " + BelievedTime + ", " + BelievedTime + ", 1 FROM " + Others + traffic + " AND " + cameAfter(until) + ")", err
}

// cameAfter is a condition on records, of a literal.
func cameAfter(at time.Time) string { return ingestedColumn + " > " + literal(at) }

func literal(at time.Time) string {
	return "TIMESTAMPTZ '" + at.UTC().Format(time.RFC3339Nano) + "'"
}

// FlowsMark is a statement that says up to which moment of coming in SightingsTable has the records, in microseconds since 1970, or less than 1970; it has no row where the table is another version's.
// A database without the table has no such relation as Flows.
var FlowsMark = fmt.Sprintf("SELECT greatest(epoch_us(greatest(until, TIMESTAMPTZ '0001-01-01')), 0) FROM %s WHERE version = %d", inputsState, inputsVersion)

// Flows is a relation of what workloads sent where in a time, for a statement of which the mark (FlowsMark) is the same before and after: of what is gathered a row for each kind, over the whole days
// that have some of the time, and of what came in after the mark a row for each day and all that its parts tell apart. It has flowColumns; days, a list of days since 1970, some more than once; first, last, records, bytes_sent,
// bytes_received; replicas, of what is gathered, and pod of what is not; and least_path and greatest_path, which are NULL where paths were too many to be kept.
func Flows(mark, since, until time.Time) string {
	sums := []string{"kind", "list(day - DATE '1970-01-01') AS days"}
	var named []string
	for _, c := range sightingNumbers {
		sums = append(sums, c.merge())
		switch c.name {
		case "least_path", "greatest_path":
			named = append(named, "CASE WHEN beyond = '' THEN "+c.name+" END AS "+c.name)
		default:
			named = append(named, c.name)
		}
	}
	gathered := "SELECT " + strings.Join(flowColumns, ", ") + ", days, NULL::VARCHAR AS pod, " + strings.Join(named, ", ") +
		" FROM (SELECT " + strings.Join(sums, ", ") + " FROM " + SightingsTable + sightedBetween(since, until) + " GROUP BY kind)" + ofInputKinds
	return "(" + gathered + " UNION ALL " + flowsOf(RowsTable, mark, since, until) + " UNION ALL " + flowsOf(Others, mark, since, until) + ")"
}

// flowColumns are those of Flows that records have, too.
var flowColumns = []string{"namespace", "service_account", "labels", "claim", "direction", "class", "protocol", "host", "port", "method", "verdict", "path"}

// flowsOf is the part of Flows that is of records.
func flowsOf(table string, mark, since, until time.Time) string {
	came := cameAfter(mark)
	if !since.IsZero() {
		came += " AND time >= " + literal(since)
	}
	if !until.IsZero() {
		came += " AND time < " + literal(until)
	}
	sums := map[string]string{
		"first": "min(time)", "last": "max(time)", "records": "count(*)::UBIGINT", "replicas": "0::UINTEGER", "bytes_sent": total("bytes_sent"), "bytes_received": total("bytes_received"),
		"least_path": "min(coalesce(url_path, ''))", "greatest_path": "max(coalesce(url_path, ''))",
	}
	added := []string{"epoch_us(time) // 86400000000 AS day"}
	var kept, named []string
	for _, c := range sightingNumbers {
		added, named = append(added, sums[c.name]+" AS "+c.name), append(named, c.name)
	}
	for _, c := range inputColumns {
		if slices.Contains(flowColumns, c.name) {
			kept = append(kept, c.from+" AS "+c.name)
		}
	}
	rows := table
	if table == RowsTable {
		for _, p := range parts {
			added = append(added, p.id)
		}
		rows += " WHERE " + came + " GROUP BY ALL)" + join(parts) + " WHERE true"
	} else {
		added = append(added, strings.Join(flowColumns, ", "), "workload", "reporter")
		rows += " WHERE " + came + " GROUP BY ALL) WHERE true"
	}
	return "SELECT " + strings.Join(kept, ", ") + ", [day] AS days, workload AS pod, " + strings.Join(named, ", ") + " FROM (SELECT " + strings.Join(added, ", ") + " FROM " + rows + " AND " + byWhoSent
}

// FlowsLeftOut is a statement that names the namespaces of which more was asked for, in days that have some of a time, than is told apart.
func FlowsLeftOut(since, until time.Time) string {
	return "SELECT DISTINCT namespace FROM (FROM " + SightingsTable + sightedBetween(since, until) + ")" + ofInputKinds + " WHERE beyond = '" + inputs.BeyondHosts + "'"
}

// sightedBetween chooses rows of SightingsTable.
func sightedBetween(since, until time.Time) string {
	out := " WHERE true"
	if !since.IsZero() {
		out += " AND last >= " + literal(since)
	}
	if !until.IsZero() {
		out += " AND first < " + literal(until)
	}
	return out
}
