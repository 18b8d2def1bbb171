package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Records that name their parts are added up by numbers: parts that are one in what is told apart get one number first, so that texts are read and compared for each part
// that the records name, and not for each record (numberParts).

// byParts are the numbers of a record's parts.
var byParts = func() string {
	var list []string
	for _, p := range parts {
		list = append(list, p.id)
	}
	return strings.Join(list, ", ")
}()

// same is the table of numberParts for the part of an index.
func same(part int) string { return fmt.Sprint("same", part) }

// numberParts makes a table of the rows of a part's table that some records name and for which a condition holds: their numbers (id), and columns made of them.
func numberParts(ctx context.Context, conn *sql.Conn, i int, of chosen, columns, condition string) error {
	p := parts[i]
	_, err := conn.ExecContext(ctx, "CREATE TEMP TABLE "+same(i)+" AS SELECT id, "+columns+" FROM "+p.table+" WHERE id IN (SELECT "+p.id+" FROM "+RowsTable+" WHERE "+of.came+") AND "+condition, of.args...)
	return err
}

// joinNumbered puts to rows of RowsTable what numberParts made of each of their parts.
func joinNumbered() (out string) {
	for i, p := range parts {
		out += " JOIN " + same(i) + " ON " + same(i) + ".id = " + RowsTable + "." + p.id
	}
	return out
}

// dropNumbered are statements that drop the tables of numberParts.
func dropNumbered() (out []string) {
	for i := range parts {
		out = append(out, "DROP TABLE "+same(i))
	}
	return out
}
