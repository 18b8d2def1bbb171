// Package duck opens DuckDB databases as everything of the audit log has to: with settings that SQL cannot change afterwards, and so
// that what somebody broke off leaves nothing behind. In: a file and settings. Out: an *sql.DB; and beside it, for what is written much, a Writer.
package duck

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/url"
	"sync"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// Open opens a database file, or one in memory where file is "". The statements of first run once, before any other.
func Open(file string, settings url.Values, first ...string) (*sql.DB, error) {
	var once sync.Once
	opened, err := duckdb.NewConnector(file+"?"+settings.Encode(), func(c driver.ExecerContext) (err error) {
		once.Do(func() {
			for _, s := range first {
				_, e := c.ExecContext(context.Background(), s, nil)
				err = errors.Join(err, e)
			}
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector{opened}), nil
}

// Appender appends rows to a table on the connection that sql.Conn.Raw gives.
func Appender(raw any, table string) (*duckdb.Appender, error) {
	return duckdb.NewAppenderFromConn(raw.(conn).Conn, "", table)
}

type connector struct{ *duckdb.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return conn{opened.(*duckdb.Conn)}, nil
}

// conn is a connection that leaves nothing behind when it is closed.
//
// A statement whose context ends between its planning and its start stays with DuckDB's connection until the connection's next
// statement, and keeps the database open although everything of it was closed. Who opens the same file again in this process then waits
// for ever within DuckDB (seen with 1.5.5 and 1.5.6). So each connection ends with a statement that nobody breaks off.
type conn struct{ *duckdb.Conn }

func (c conn) Close() error {
	_, err := c.ExecContext(context.Background(), "SELECT 1", nil)
	return errors.Join(ignoreFatal(err), c.Conn.Close())
}

// ignoreFatal forgives a database that DuckDB gave up: it is closed all the same, and who used it was told.
func ignoreFatal(err error) error {
	var e *duckdb.Error
	if errors.As(err, &e) {
		return nil
	}
	return err
}
