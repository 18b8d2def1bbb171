package store

import (
	"context"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// SightingsTable has what InputsTable has, without what tells requests of one workload to one host apart: a twentieth of its rows, for those
// who ask about the whole log. Whatever writes InputsTable writes it too (gather.go).
const SightingsTable = "sightings"

// sightingColumns are its columns, and those of Sightings.
const sightingColumns = "namespace, service_account, workload, class, protocol, host, port, method, verdict, path, decided_by, allowed_by, would_deny, day"

// sightingsFrom is a SELECT of the table's rows that rows of InputsTable add up to.
func sightingsFrom(relation string) string {
	return "SELECT " + sightingColumns + ", min(first) AS first, max(last) AS last, " + total("records") + " AS records FROM " + relation + " GROUP BY ALL"
}

// ofDays is a relation for sightingsFrom: rows of InputsTable, or like them, added up by day and by the columns that name their kinds, before join puts to them what these are.
func ofDays(rows, by, join string) string {
	return "(FROM (SELECT day, " + by + ", min(first) AS first, max(last) AS last, " + total("records") + " AS records FROM " + rows + " GROUP BY ALL)" + join + ")"
}

// Sightings is a relation with what was told apart, by day, and each record that is not gathered yet: who, what, when, how often, and the
// objects that decided, allowed or would deny it, as KIND/NAMESPACE/NAME/REVISION/RULE. It is of the transaction in which it is asked for, with a
// moment that DuckDB can leave out records by.
func Sightings(ctx context.Context, tx queryer) (relation string, err error) {
	_, until, err := inputsAt(ctx, tx)
	return "(SELECT " + sightingColumns + ", first, last, records FROM " + SightingsTable + `
	UNION ALL SELECT coalesce(namespace, ''), coalesce(service_account, ''), regexp_replace(coalesce(workload, ''), '` + replica + `', ''), class, protocol, host, port, method, verdict, path,
		` + object("decided_by").from + ", " + object("allowed_by").from + ", " + object("would_deny").from + ", " + BelievedDay + ", " + BelievedTime + ", " + BelievedTime + `, 1
	FROM ` + Table + ` WHERE ` + ingestedColumn + " > TIMESTAMPTZ '" + until.UTC().Format(time.RFC3339Nano) + "' AND class <> '" + string(record.Action) + "')", err
}
