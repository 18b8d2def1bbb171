package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/schema"
)

// Relation is Table with some of its columns and no others. It joins the parts alone that have them, where the view joins all of them whatever is asked for. It is
// for databases of a store, and not for what is read of a lake.
func Relation(columns ...string) string {
	list := make([]string, len(columns))
	for i, name := range columns {
		list[i] = columnOf(name)
	}
	return "(" + both(list, join(partsOf(columns)), columns) + ")"
}

// OfOnePart says whether some columns of Table are all of one part, so that Added finds them by its number.
func OfOnePart(columns ...string) bool {
	return len(partsOf(columns)) == 1 && !slices.ContainsFunc(columns, func(c string) bool { return c == "source" || homeOf(c) == RowsTable })
}

// Few is Table, for those few records for which a condition on some columns holds: they are found first, and what they name is joined to them then, where otherwise the parts of all records would
// be made ready for it. The condition's parameters come twice.
func Few(columns []string, condition string) string {
	all := tableColumns()
	list, asked := make([]string, len(all)), []string{RowsTable + ".*"}
	for i, name := range all {
		list[i] = columnOf(name)
		if slices.Contains(columns, name) && (homeOf(name) != RowsTable || madeOf[name] != "") {
			asked = append(asked, list[i])
		}
	}
	return "(WITH found AS MATERIALIZED (SELECT " + names(rowColumns()) + " FROM (SELECT " + strings.Join(asked, ", ") + " FROM " + RowsTable + join(partsOf(columns)) + ") WHERE " + condition + ")" +
		" SELECT " + strings.Join(list, ", ") + " FROM found AS " + RowsTable + join(parts) + " UNION ALL SELECT " + strings.Join(all, ", ") + " FROM " + Others + " WHERE " + condition + ")"
}

// sums are columns of Added that are no columns of records, or sums of them.
const sums = "began, first, last, records, lost, bytes_sent, bytes_received, " + ingestedColumn

// Added is a relation of records that have some columns in common, added up: it has these columns, and began, first and last, which are times; records, which is how
// many they are; and lost, bytes_sent, bytes_received and ingested. Those that name the same parts are one row, which is found by the numbers of these, so that texts are
// read once for many records; where a column differs from record to record, each is a row. Which records it has say conditions on time and ingested, of which no two hold for one.
// A row is never on both sides of a multiple of grain, if that is not 0; began is the time of its first record.
func Added(columns []string, grain time.Duration, came ...string) string {
	columns = withoutSums(columns)
	if slices.ContainsFunc(columns, func(c string) bool { return c == "source" || homeOf(c) == RowsTable }) {
		return OneByOne(columns, came...)
	}
	named := strings.Join(append(slices.Clone(columns), sums), ", ")
	needed := partsOf(columns)
	var by []string
	for _, p := range needed {
		by = append(by, p.id)
	}
	rows := allOf("SELECT "+strings.Join(append(slices.Clone(by), "time", "lost", "bytes_sent", "bytes_received", ingestedColumn), ", ")+" FROM "+RowsTable, came)
	if grain = min(grain, 24*time.Hour); grain > 0 { // multiples of more than a day are also some of a day
		by = append(by, fmt.Sprintf("epoch_us(time) // %d AS slice", grain.Microseconds()))
	}
	group := " GROUP BY ALL"
	if len(by) == 0 {
		group = " HAVING count(*) > 0" // of nothing there is no row
	}
	by = append(by, "min(time) AS began", "min(time) AS first", "max(time) AS last", "count(*)::UBIGINT AS records",
		total("lost")+" AS lost", total("bytes_sent")+" AS bytes_sent", total("bytes_received")+" AS bytes_received", "max("+ingestedColumn+") AS "+ingestedColumn)
	return "(SELECT " + named + " FROM (SELECT " + strings.Join(by, ", ") + " FROM " + rows + group + ")" + join(needed) + " UNION ALL FROM " + allOf("SELECT "+each(columns)+" FROM "+Others, came) + ")"
}

// OneByOne is Added with a row for each record: for a question about few of them, whose condition DuckDB asks before anything else.
func OneByOne(columns []string, came ...string) string {
	columns = withoutSums(columns)
	return allOf("SELECT "+each(columns)+" FROM "+Relation(append(slices.Clone(columns), "time", "lost", "bytes_sent", "bytes_received", ingestedColumn)...), came)
}

// each is what Added has of a single record.
func each(columns []string) string {
	return strings.Join(append(slices.Clone(columns), "time AS began", "time AS first", "time AS last", "1::UBIGINT AS records", "lost", "bytes_sent", "bytes_received", ingestedColumn), ", ")
}

// withoutSums are columns that are none of Added's own.
func withoutSums(columns []string) []string {
	return slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return slices.Contains(strings.Split(sums, ", "), c) })
}

// allOf are the rows of a SELECT for which one of some conditions holds, of which no two do. DuckDB leaves out what a condition excludes, and reads all of what two of them
// have together.
func allOf(query string, conditions []string) string {
	list := make([]string, len(conditions))
	for i, c := range conditions {
		list[i] = query + " WHERE " + c
	}
	return "(" + strings.Join(list, " UNION ALL ") + ")"
}

// manyPeriods is how many of them become one row at least, where adding up roll-ups by the numbers of their kinds is worth while.
const manyPeriods = 4

// AddedRollups is RollupsTable, which may be added up where times are not told apart: within multiples of grain, or at all where that is 0. when is a condition on began.
func AddedRollups(when string, grain time.Duration) string {
	if 0 < grain && grain < manyPeriods*Period {
		return "(SELECT * FROM " + RollupsTable + " WHERE " + when + ")"
	}
	by := []string{"kind"}
	if grain = min(grain, 24*time.Hour); grain > 0 {
		by = append(by, fmt.Sprintf("epoch_us(began) // %d AS slice", grain.Microseconds()))
	}
	by = append(by, "min(began) AS began")
	for _, c := range rollupNumbers {
		by = append(by, c.merge())
	}
	return "(SELECT " + names(rollupColumns) + " FROM (SELECT " + strings.Join(by, ", ") + " FROM " + rollupRows + " WHERE " + when + " GROUP BY ALL) JOIN " + rollupKinds + " ON id = kind)"
}

// sourceOf is a record's source in a SELECT of rows and senders.
const sourceOf = "CASE WHEN " + sourcePort + " IS NULL THEN " + sourceAddress + " ELSE " + sourceAddress + " || ':' || " + sourcePort + " END AS source"

// madeOf has the columns of Table that are not kept as they are.
var madeOf = map[string]string{
	"source":      sourceOf,
	"seq":         "(" + nthColumn + " + " + aheadColumn + ")::UBIGINT AS seq",
	"duration_ns": microseconds + " * 1000 AS duration_ns",
}

// columnOf is a column of Table in a SELECT of RowsTable with the part that has it.
func columnOf(name string) string {
	if from := madeOf[name]; from != "" {
		return from
	}
	if name == ingestedColumn {
		return name
	}
	return homeOf(name) + "." + name
}

// partsOf are the parts that have columns.
func partsOf(columns []string) (out []part) {
	for _, p := range parts {
		if slices.ContainsFunc(columns, func(c string) bool { return homeOf(c) == p.table }) {
			out = append(out, p)
		}
	}
	return out
}

// join puts to rows what they name.
func join(of []part) (out string) {
	for _, p := range of {
		out += " JOIN " + p.table + " ON " + p.table + ".id = " + p.id
	}
	return out
}

// PartNumber is the column of a part's table by which rows of RowsTable name it.
const PartNumber = "id"

// PartTables are the tables of parts.
func PartTables() (out []string) {
	for _, p := range parts {
		out = append(out, p.table)
	}
	return out
}

// Without is a SELECT of Table in which the columns of some parts are NULL, and these are not joined: it is for who does not read them. Of none it is all of Table.
func Without(tables ...string) string {
	names := tableColumns()
	list := make([]string, len(names))
	for i, name := range names {
		if list[i] = columnOf(name); slices.Contains(tables, homeOf(name)) {
			list[i] = "NULL::" + typeOf(name) + " AS " + name
		}
	}
	kept := slices.DeleteFunc(slices.Clone(parts), func(p part) bool { return slices.Contains(tables, p.table) })
	return both(list, join(kept), names)
}

// both are some columns of the records that are in RowsTable, and of the others.
func both(list []string, join string, names []string) string {
	return "SELECT " + strings.Join(list, ", ") + " FROM " + RowsTable + join + " UNION ALL SELECT " + strings.Join(names, ", ") + " FROM " + Others
}

// tableColumns are the names of Table's columns, in order.
func tableColumns() (names []string) {
	for i := range schema.Columns {
		names = append(names, schema.Columns[i].Name)
	}
	return append(names, ingestedColumn)
}

// typeOf is the type of a column of the schema.
func typeOf(name string) string {
	at := slices.IndexFunc(schema.Columns, func(c schema.Column) bool { return c.Name == name })
	return schema.Columns[at].Type
}

// Rows is how many records a store has that are made of parts; 0 of what is no store.
func Rows(ctx context.Context, db queryer) (n uint64) {
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+RowsTable).Scan(&n); err != nil {
		return 0 // what is read of a lake has no such table
	}
	return n
}
