package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// roughly is the moment of the chunk's end, a parameter, but no more than an hour after the input's last record came in: what is the same in all
// rows has no bytes, and how long an input is kept need not be known better.
const roughly = "least(" + ingestedColumn + " + INTERVAL 1 HOUR, ?)"

// fillInputsOf adds the inputs of some records: of a chunk, whose end is the last of args.
func fillInputsOf(ctx context.Context, conn *sql.Conn, condition string, args ...any) error {
	of := chosen{condition, "true", args}
	whole, err := of.withoutNumbers(ctx, conn)
	if err != nil {
		return err
	}
	end := args[len(args)-1]
	if !whole {
		return fillCounted(ctx, conn, of, end)
	}
	rows, err := gathered(ctx, conn, of)
	if err == nil {
		_, err = conn.ExecContext(ctx, "CREATE TEMP TABLE wide AS SELECT * REPLACE ("+roughly+" AS "+ingestedColumn+") FROM ("+rows+")", append([]any{end}, args...)...) //nolint:gosec // G202: names and conditions are ours
	}
	if err != nil {
		return err
	}
	return storeWide(ctx, conn)
}

// podless is a workload's name without what tells its replicas apart.
const podless = "regexp_replace(coalesce(workload, ''), '" + replica + "', '')"

// quiet is the reason of an outcome where it may be an input's: it is one of what nobody decided alone, which the target says.
const quiet = "CASE WHEN verdict = 'denied' AND class <> '" + string(record.DNS) + "' THEN reason ELSE '' END"

// inputsTellApart are the columns of a part by which inputs are told apart, some of them made otherwise; "" leaves one out.
func inputsTellApart(p part, otherwise map[string]string) string {
	var list []string
	for _, c := range inputKindColumns {
		name := c.name
		if byName[name] == nil { // an object's
			name += "_kind"
		}
		if homeOf(name) != p.table {
			continue
		}
		from := c.from
		if other, some := otherwise[c.name]; some {
			from = other
		}
		if from != "" {
			list = append(list, from)
		}
	}
	return strings.Join(list, ", ")
}

// numberInputs makes the tables of numberParts for inputs: of senders with their pods (pod) and without, of outcomes with their reasons (told) and without, and of
// targets with whether an object decided (nobody).
func numberInputs(ctx context.Context, conn *sql.Conn, of chosen) error {
	number := func(p part, otherwise map[string]string) string {
		return "min(id) OVER (PARTITION BY " + inputsTellApart(p, otherwise) + ") AS "
	}
	for i, p := range parts {
		columns, condition := number(p, map[string]string{"workload": podless, "reason": ""})+"one", "true"
		switch p.id {
		case "reporter_id":
			condition = byWhoSent
		case "sender_id":
			columns += ", " + number(p, nil) + "pod"
		case "target_id":
			columns += ", coalesce(decided_by_kind, '') = '' AS nobody"
		case "outcome_id":
			columns += ", " + number(p, map[string]string{"reason": quiet}) + "told"
			condition = "class <> '" + string(record.Action) + "'"
		}
		if err := numberParts(ctx, conn, i, of, columns, condition); err != nil {
			return err
		}
	}
	return nil
}

// fillCounted adds the inputs of records that name their parts: they are added up by numbers, as roll-ups are (fillNumbered).
func fillCounted(ctx context.Context, conn *sql.Conn, of chosen, end any) error {
	if err := numberInputs(ctx, conn, of); err != nil {
		return err
	}
	var first, then, kind []string
	for _, c := range inputRowColumns {
		switch c.name {
		case "replicas": // what is left to tell the rows apart is the pod
			then = append(then, "count(*)::UINTEGER AS replicas")
			continue
		case ingestedColumn:
			then = append(then, strings.Replace(roughly, ingestedColumn, "max("+ingestedColumn+")", 1)+" AS "+ingestedColumn)
		default:
			then = append(then, c.merge())
		}
		first = append(first, c.from+" AS "+c.name)
	}
	for i, p := range parts {
		number := same(i) + ".one"
		switch p.id {
		case "sender_id":
			first = append(first, same(i)+".pod")
		case "outcome_id":
			number = "CASE WHEN nobody THEN told ELSE " + number + " END"
		}
		first = append(first, number+" AS "+p.id)
	}
	rows := "SELECT " + strings.Join(first, ", ") + " FROM " + RowsTable + joinNumbered() + " WHERE " + of.came + " GROUP BY ALL"
	if _, err := conn.ExecContext(ctx, "CREATE TEMP TABLE counted AS SELECT "+strings.Join(then, ", ")+", "+byParts+" FROM ("+rows+") GROUP BY ALL", append([]any{end}, of.args...)...); err != nil { //nolint:gosec // G202: names and conditions are ours
		return err
	}
	for _, c := range inputKindColumns {
		from := c.from
		if c.name == "workload" {
			from = podless
		}
		kind = append(kind, from+" AS "+c.name)
	}
	if err := execute(ctx, conn, "CREATE TEMP TABLE kinds AS SELECT "+byParts+", "+strings.Join(kind, ", ")+" FROM (SELECT DISTINCT "+byParts+" FROM counted)"+join(parts)); err != nil {
		return err
	}
	counted := addedInputs{"counted", byParts, " JOIN kinds USING (" + byParts + ")", inputsKinds.of("kinds", byParts)}
	if err := counted.store(ctx, conn, "SELECT kind, "+names(inputRowColumns)+" FROM counted"+counted.number, inputsKinds.add("kinds")); err != nil {
		return err
	}
	return execute(ctx, conn, append(dropNumbered(), "DROP TABLE counted", "DROP TABLE kinds")...)
}

// addedInputs are rows of inputs in a temporary table, which name their kinds by some columns; join puts to each what its kind is, and number its number, once there is one.
type addedInputs struct{ table, by, join, number string }

// store adds them to the tables: by the rows of a SELECT, once other statements are executed; or, where there are more than are told apart, without those.
func (a addedInputs) store(ctx context.Context, conn *sql.Conn, rows string, before ...string) error {
	for _, b := range beyonds {
		var many bool
		if err := conn.QueryRowContext(ctx, b.exceeded(a)).Scan(&many); err != nil {
			return err
		}
		if many {
			if err := execute(ctx, conn, "CREATE TEMP TABLE wide AS SELECT "+names(inputColumns)+" FROM "+a.table+a.join); err != nil {
				return err
			}
			return storeWide(ctx, conn)
		}
	}
	return execute(ctx, conn, append(before, "INSERT INTO "+InputsTable+" "+rows, addSightings(a.table, a.by, a.number))...)
}

// storeWide adds the rows of the table wide, which has all columns of inputs, as many as are told apart, and drops it.
func storeWide(ctx context.Context, conn *sql.Conn) error {
	var n int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM wide").Scan(&n); err != nil {
		return err
	}
	var statements []string
	for _, b := range beyonds {
		if n > b.most {
			statements = append(statements, b.find("wide"), "CREATE TEMP TABLE one AS "+b.merged("wide"),
				"DELETE FROM wide WHERE rowid IN (SELECT id FROM many)", "INSERT INTO wide SELECT * FROM one", "DROP TABLE many", "DROP TABLE one")
		}
	}
	statements = append(statements, inputsKinds.add("wide"),
		"INSERT INTO "+InputsTable+" SELECT id, "+names(inputRowColumns)+" FROM wide JOIN "+InputKinds+" ON "+inputsKinds.is("wide"),
		addSightings("wide JOIN "+InputKinds+" ON "+inputsKinds.is("wide"), "id AS kind", ""), "DROP TABLE wide")
	return execute(ctx, conn, statements...)
}

// beyond is what is left out where there are more inputs than are told apart. Those that came most often stay.
type beyond struct {
	is    string // see inputs.Question
	group string // of which so many are told apart
	most  int
	told  func(column string) bool // whether it is told all the same
}

var beyonds = []beyond{
	{is: inputs.BeyondPaths, group: "day, namespace, service_account, host, port, method", most: maxPaths, told: func(column string) bool { return column != "url_path" && column != "dialled" }},
	{is: inputs.BeyondHosts, group: "day, namespace, service_account", most: maxInputs, told: func(column string) bool {
		return slices.Contains([]string{"day", "namespace", "service_account", "verdict"}, column)
	}},
}

// find is a statement that makes a table, many, of the rows that are too many.
func (b beyond) find(from string) string {
	return fmt.Sprintf("CREATE TEMP TABLE many AS SELECT rowid AS id FROM %s WHERE beyond = '' AND class <> 'gap' "+
		"QUALIFY row_number() OVER (PARTITION BY %s ORDER BY records DESC, rowid) > %d", from, b.group, b.most)
}

// exceeded is a statement that says whether there may be rows that are too many.
func (b beyond) exceeded(of addedInputs) string {
	return fmt.Sprintf("SELECT coalesce(max(n), 0) > %d FROM (SELECT sum(n) AS n FROM (SELECT day, %[2]s, count(*) AS n FROM %[3]s GROUP BY ALL)%[4]s WHERE beyond = '' AND class <> 'gap' GROUP BY %[5]s)",
		b.most, of.by, of.table, of.join, b.group)
}

// merged is a SELECT of what is told of them.
func (b beyond) merged(from string) string {
	var list []string
	for _, c := range inputColumns {
		switch {
		case c.name == "beyond":
			list = append(list, "'"+b.is+"' AS beyond")
		case c.merged != "" || b.told(c.name):
			list = append(list, c.merge())
		case c.kind == "VARCHAR":
			list = append(list, "'' AS "+c.name)
		default:
			list = append(list, "0 AS "+c.name)
		}
	}
	return fmt.Sprintf("SELECT %s FROM %s WHERE rowid IN (SELECT id FROM many) GROUP BY ALL", strings.Join(list, ", "), from)
}
