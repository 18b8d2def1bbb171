package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/egress/audit/schema"
)

// Versions of a folder. Up to the fourth they are the schema's, and a record is a row; in the fifth it is made of parts, in the sixth of shorter ones (parts.go), and from
// there on a folder's version is two more than its schema's.
const (
	inParts       = 5
	shorter       = 6
	folderVersion = schema.Version + 2
)

// versionTable has one row for each version that the folder was brought to. Folders of before it are version 1, or older
// than claim, forwarded_for and cut, which version 1 adds where they are missing.
const versionTable = "schema_versions"

// spoolsTable is append-only: the row with the highest version counts (see seen.go).
const spoolsTable = "CREATE TABLE IF NOT EXISTS spools (proxy VARCHAR, epoch UBIGINT, version UBIGINT, spans VARCHAR, updated TIMESTAMPTZ)"

// NewerError says that a newer version of sallyport wrote the folder.
type NewerError struct{ Has, Known int }

func (e NewerError) Error() string {
	return fmt.Sprintf("audit store: the folder was written by a newer version of sallyport (schema %d; this one knows %d): "+
		"use that version or a later one, or give another folder; nothing was changed", e.Has, e.Known)
}

// queryer is a database, or a connection of one.
type queryer interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

// versionOf is the version of a database's schema; 0 where there is no table yet, or one of before versions were written down.
func versionOf(ctx context.Context, db queryer) (int, error) {
	there, err := hasTable(ctx, db, versionTable)
	if err == nil && !there {
		return 0, nil
	}
	var version int
	if err == nil {
		err = db.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM "+versionTable).Scan(&version)
	}
	if err != nil {
		return 0, fmt.Errorf("audit store: read the schema's version: %w", err)
	}
	if version > folderVersion {
		return version, NewerError{version, folderVersion}
	}
	return version, nil
}

func hasTable(ctx context.Context, db queryer, name string) (there bool, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM duckdb_tables() WHERE table_name = '"+name+"'").Scan(&there)
	return there, err
}

// during is called between the steps of a migration, by tests.
var during = func(step string) {}

// migrate brings a database to the schema of this version, in one transaction: whenever it is broken off, the folder is what it was.
func migrate(ctx context.Context, db *sql.DB, now time.Time) error {
	from, err := versionOf(ctx, db)
	if err != nil || from == folderVersion {
		return err
	}
	earlier, err := hasTable(ctx, db, Table) // from version inParts on it is a view
	if err != nil {
		return fmt.Errorf("audit store: look for records: %w", err)
	}
	moved, err := hasTable(ctx, db, earlierRows)
	if err != nil {
		return fmt.Errorf("audit store: look for records: %w", err)
	}
	err = transact(ctx, db, func(conn *sql.Conn) error {
		for version := from + 1; version <= folderVersion; version++ {
			for _, statement := range steps(version, earlier, from == inParts, moved) {
				if _, err := conn.ExecContext(ctx, statement); err != nil {
					return err
				}
				during(statement)
			}
			if _, err := conn.ExecContext(ctx, "INSERT INTO "+versionTable+" VALUES (?, ?)", version, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("audit store: bring the folder from schema %d to %d: %w; nothing was changed", from, folderVersion, err)
	}
	return nil
}

// steps are the statements that make a version of the one before it. Of the folder say earlier whether it has records of a version of before inParts, longer whether it is of that version,
// and moved whether those of that version were moved (moveEarlier). None of the statements reads or writes the records that there are.
func steps(version int, earlier, longer, moved bool) (out []string) {
	if version == 1 {
		out = append(out, spoolsTable, "CREATE TABLE IF NOT EXISTS "+versionTable+" (version INTEGER, since TIMESTAMPTZ)")
	}
	switch {
	case version < inParts && earlier:
		out = append(out, addColumns(version, func(string) []string { return []string{Table} })...)
	case version == inParts && earlier:
		out = append(out, "ALTER TABLE "+Table+" RENAME TO "+WholeTable)
	case version == inParts:
		out = append(out, createWhole())
	case version == shorter && longer:
		out = append(append(out, moveEarlier()...), createParts()...)
	case version == shorter:
		out = append(out, createParts()...)
	case version > shorter:
		out = append(out, addColumns(version-2, func(column string) []string { return []string{homeOf(column), WholeTable} })...)
	}
	if version >= shorter {
		out = append(out, createViews(longer || moved)...)
	}
	return out
}

// addColumns are statements that add the columns of a version of the schema to the tables that have them.
func addColumns(version int, tables func(column string) []string) (out []string) {
	for i := range schema.Columns {
		if c := &schema.Columns[i]; c.Since == version {
			for _, table := range tables(c.Name) {
				out = append(out, "ALTER TABLE "+table+" ADD COLUMN IF NOT EXISTS "+c.Name+" "+c.Type)
			}
		}
	}
	return out
}

// execute runs statements one after the other.
func execute(ctx context.Context, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, statements ...string) error {
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// transact runs f between BEGIN and COMMIT on one connection. (sql.Tx does not give the connection that an appender
// needs.)
func transact(ctx context.Context, db *sql.DB, f func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = conn.ExecContext(ctx, "BEGIN TRANSACTION"); err == nil {
		err = f(conn)
	}
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		// The connection does not go back with a transaction on it, whatever ended this one.
		if _, rollback := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); rollback != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
		}
	}
	return err
}
