package query

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/sallyport/sallyport/egress/audit/duck"
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

// beyondLimit is what statements may take of memory, in all, beside what DuckDB's own limit counts and may have: what functions make of a row.
const beyondLimit = 128 << 20

// StatementThreads is how many threads a database works in that is asked by SQL: what a statement takes is bounded on the thread that asks, and DuckDB's own threads are not.
const StatementThreads = 1

// SQL runs one SELECT on the table records, in a transaction that cannot write. What all statements of a process take of memory is bounded, and how deep one is nested.
func SQL(ctx context.Context, db *sql.DB, statement string, sink RowSink) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("audit sql: %w", err)
	}
	defer conn.Close()
	limit, threads, err := duck.Limits(ctx, conn)
	if err == nil && threads != StatementThreads {
		err = fmt.Errorf("the database has %d threads, and a statement is bounded on one alone", threads)
	}
	if err != nil {
		return fmt.Errorf("audit sql: %w", err)
	}
	refused := duck.Bounded(limit+beyondLimit, func() { err = withoutAdvice(answer(ctx, conn, statement, sink)) })
	if wrong := (StatementError{}); ctx.Err() == nil && errors.As(err, &wrong) {
		switch refused {
		case duck.Memory:
			return StatementError{fmt.Errorf("it needs more memory than there is for statements, %d MB in all: ask for less at a time (%w)", (limit+beyondLimit)/1e6, wrong.Err)}
		case duck.Depth:
			return StatementError{errors.New("it is nested too deep, or makes a value or a pattern that is")}
		}
	}
	return err
}

// withoutAdvice leaves out which settings DuckDB would change: nobody can who asks here.
func withoutAdvice(err error) error {
	if wrong := (StatementError{}); errors.As(err, &wrong) {
		if text, _, advised := strings.Cut(wrong.Err.Error(), "\n\nPossible solutions:"); advised {
			return StatementError{errors.New(text)}
		}
	}
	return err
}

// answer runs a statement on a connection.
func answer(ctx context.Context, conn *sql.Conn, statement string, sink RowSink) (err error) {
	unbroken := duck.BreakOff(ctx)
	defer unbroken()
	columns, err := onlySelect(conn, statement)
	if err != nil {
		return err
	}
	better, byNumbers := counted(ctx, conn, statement)
	if byNumbers {
		statement = better
	}
	if statement, err = measured(ctx, conn, statement, columns); err != nil {
		return err
	}
	restore := func() error { return nil }
	if !byNumbers { // which reads no view
		restore, err = narrow(ctx, conn, statement)
	}
	defer func() {
		unbroken()
		err = errors.Join(err, restore())
	}()
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "BEGIN TRANSACTION READ ONLY"); err != nil {
		return fmt.Errorf("audit sql: %w", err)
	}
	// The end of ctx must not leave the connection inside the transaction.
	defer func() {
		unbroken()
		if _, e := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); e != nil {
			err = errors.Join(err, e, conn.Raw(func(any) error { return driver.ErrBadConn }))
		}
	}()
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return tooLarge(StatementError{err})
	}
	defer rows.Close()
	return passRows(rows, sink)
}

// answered is a column of an answer.
type answered struct {
	name string
	kind duckdb.Type
}

// onlySelect prepares the statement without running it: DuckDB itself says what it is, and which columns its answer has.
func onlySelect(conn *sql.Conn, statement string) (columns []answered, err error) {
	err = conn.Raw(func(raw any) error {
		// Prepare, unlike PrepareContext, does not run the first ones of several statements.
		prepared, err := raw.(driver.Conn).Prepare(statement)
		switch {
		case err != nil && strings.Contains(err.Error(), "multi-statement"):
			return StatementError{errors.New("give one statement, not several")}
		case err != nil:
			return StatementError{err}
		}
		defer prepared.Close()
		stmt := prepared.(*duckdb.Stmt)
		kind, err := stmt.StatementType()
		if err != nil {
			return StatementError{err}
		}
		if kind != duckdb.STATEMENT_TYPE_SELECT {
			return StatementError{errors.New("only SELECT is allowed")}
		}
		n, err := stmt.ColumnCount()
		columns = make([]answered, n)
		for i := range columns {
			var e1, e2 error
			columns[i].name, e1 = stmt.ColumnName(i)
			columns[i].kind, e2 = stmt.ColumnType(i)
			err = errors.Join(err, e1, e2)
		}
		if err != nil {
			return StatementError{err}
		}
		return nil
	})
	return columns, err
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
