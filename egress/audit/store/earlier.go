package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Records of folder version inParts stay as they are: in tables of the same kind, with names of their own, until the last of them goes by its age. They had numbers and
// durations as they came, and outcomes had who decided. Questions find them by Others.
const (
	earlierRows   = "earlier_rows"
	earlierSchema = 4 // the schema's version that they were of
)

// earlierTable is what a table of theirs is called now.
func earlierTable(table string) string { return "earlier_" + strings.TrimPrefix(table, "record_") }

// moveEarlier are statements that give the tables their names.
func moveEarlier() []string {
	out := []string{"DROP VIEW " + Table, "DROP VIEW " + Arrivals, "ALTER TABLE " + RowsTable + " RENAME TO " + earlierRows}
	for _, p := range parts {
		out = append(out, "ALTER TABLE "+p.table+" RENAME TO "+earlierTable(p.table))
	}
	return out
}

// earlierRecords is a SELECT of them, with Table's columns.
func earlierRecords() string {
	names := tableColumns()
	list := make([]string, len(names))
	for i, name := range names {
		if list[i] = name; name == "source" {
			list[i] = sourceOf
		} else if c := byName[name]; c != nil && c.Since > earlierSchema {
			list[i] = "NULL::" + c.Type + " AS " + name
		} else if name == ingestedColumn {
			list[i] = earlierRows + "." + name
		}
	}
	from := earlierRows
	for _, p := range parts {
		from += " JOIN " + earlierTable(p.table) + " ON " + earlierTable(p.table) + ".id = " + p.id
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + from
}

// dropEarlier drops their tables when none of them is left.
func dropEarlier(ctx context.Context, db *sql.DB) error {
	there, err := hasTable(ctx, db, earlierRows)
	if err == nil && there {
		err = db.QueryRowContext(ctx, "SELECT EXISTS (FROM "+earlierRows+")").Scan(&there)
		if err == nil && !there {
			statements := append(createViews(false), "DROP TABLE "+earlierRows)
			for _, p := range parts {
				statements = append(statements, "DROP TABLE "+earlierTable(p.table))
			}
			err = transact(ctx, db, func(conn *sql.Conn) error { return execute(ctx, conn, statements...) })
		}
	}
	if err != nil {
		return fmt.Errorf("audit store: drop the tables of records that are gone: %w", err)
	}
	return nil
}
