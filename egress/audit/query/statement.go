package query

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// StatementError says that a statement given to SQL is wrong or not allowed.
type StatementError struct{ Err error }

func (e StatementError) Error() string { return "audit sql: " + e.Err.Error() }
func (e StatementError) Unwrap() error { return e.Err }

// RowSink takes the result of a statement: Columns once, then each row. Cells are nil, bool, string, int64, uint64,
// float64, json.Number, or slices and maps of them. (From a remote source all numbers are json.Number.)
type RowSink interface {
	Columns(names []string) error
	Row(cells []any) error
}

// SQL runs one SELECT on the table records, in a transaction that cannot write.
func SQL(ctx context.Context, db *sql.DB, statement string, sink RowSink) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("audit sql: %w", err)
	}
	defer conn.Close()
	if err := onlySelect(conn, statement); err != nil {
		return err
	}
	restore, err := narrow(ctx, conn, statement)
	defer func() { err = errors.Join(err, restore()) }()
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN TRANSACTION READ ONLY"); err != nil {
		return fmt.Errorf("audit sql: %w", err)
	}
	// The end of ctx must not leave the connection inside the transaction.
	defer func() {
		if _, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); e != nil {
			err = errors.Join(err, e, conn.Raw(func(any) error { return driver.ErrBadConn }))
		}
	}()
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return StatementError{err}
	}
	defer rows.Close()
	return passRows(rows, sink)
}

// onlySelect prepares the statement without running it: DuckDB itself says what it is.
func onlySelect(conn *sql.Conn, statement string) error {
	return conn.Raw(func(raw any) error {
		// Prepare, unlike PrepareContext, does not run the first ones of several statements.
		prepared, err := raw.(driver.Conn).Prepare(statement)
		switch {
		case err != nil && strings.Contains(err.Error(), "multi-statement"):
			return StatementError{errors.New("give one statement, not several")}
		case err != nil:
			return StatementError{err}
		}
		defer prepared.Close()
		kind, err := prepared.(*duckdb.Stmt).StatementType()
		if err != nil {
			return StatementError{err}
		}
		if kind != duckdb.STATEMENT_TYPE_SELECT {
			return StatementError{errors.New("only SELECT is allowed")}
		}
		return nil
	})
}

func passRows(rows *sql.Rows, sink RowSink) error {
	names, err := rows.Columns()
	if err != nil {
		return StatementError{err}
	}
	if err := sink.Columns(names); err != nil {
		return err
	}
	cells, targets := make([]any, len(names)), make([]any, len(names))
	for i := range cells {
		targets[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return StatementError{err}
		}
		out := make([]any, len(cells))
		for i, c := range cells {
			out[i] = cell(c)
		}
		if err := sink.Row(out); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return StatementError{err}
	}
	return nil
}
