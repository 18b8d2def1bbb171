package store

import "strings"

// kinds is a table of what rows of another one are of: each once, under a number (id) by which these rows name it (kind).
type kinds struct {
	table   string
	columns []inputColumn
}

// create is a statement that makes the table.
func (k kinds) create() string {
	return createTable(k.table, append([]inputColumn{{name: "id", kind: "UBIGINT"}}, k.columns...))
}

// add is a statement that adds the kinds of a relation that there are not yet.
func (k kinds) add(relation string) string {
	of := names(k.columns)
	return "INSERT INTO " + k.table + " SELECT (SELECT coalesce(max(id), 0) FROM " + k.table + ") + row_number() OVER (ORDER BY namespace, service_account, host, verdict), " + of +
		" FROM (SELECT " + of + " FROM " + relation + " EXCEPT SELECT " + of + " FROM " + k.table + ")"
}

// is a condition that a relation's row is of a kind.
func (k kinds) is(relation string) string {
	var same []string
	for _, c := range k.columns {
		same = append(same, relation+"."+c.name+" IS NOT DISTINCT FROM "+k.table+"."+c.name)
	}
	return strings.Join(same, " AND ")
}

// of puts to rows their kinds' numbers, by columns that they share with a relation of kinds.
func (k kinds) of(relation, by string) string {
	return " JOIN (SELECT " + by + ", id AS kind FROM " + relation + " JOIN " + k.table + " ON " + k.is(relation) + ") USING (" + by + ")"
}
