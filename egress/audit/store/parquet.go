package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// ParquetWriter collects records and writes them as one Parquet file with the table's columns. The store itself
// cannot write files; this runs in the process of whoever wants the file, with that user's rights.
type ParquetWriter struct {
	file    string
	scratch string // a folder beside the file, for a database that holds the records meanwhile
	db      *sql.DB
	conn    *sql.Conn
	count   int64
}

// UsualMemory is what a Parquet file may take of DuckDB's memory where there is enough.
const UsualMemory = "512MB"

// NewParquetWriter prepares for a file, which must not exist. Call Close in any case. Memory is DuckDB's; what does not fit waits beside the file.
func NewParquetWriter(ctx context.Context, file, memory string) (w *ParquetWriter, err error) {
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("audit export: %s exists: give another name or remove it", file)
	}
	w = &ParquetWriter{file: file}
	if w.scratch, err = os.MkdirTemp(filepath.Dir(file), ".audit-export-"); err != nil {
		return nil, fmt.Errorf("audit export: %w", err)
	}
	made := w // a return says nil where something failed
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("audit export: %w", err), made.Close())
		}
	}()
	if w.db, err = duck.Open(filepath.Join(w.scratch, FileName), url.Values{"memory_limit": {memory}, "threads": {"2"}}); err != nil {
		return nil, err
	}
	if _, err := w.db.ExecContext(ctx, createTable(Table, wholeRecords())); err != nil {
		return nil, err
	}
	w.conn, err = w.db.Conn(ctx)
	return w, err
}

// wholeRecords are the columns of a table that has a row for each record, without when it came in.
func wholeRecords() (out []inputColumn) {
	for i := range schema.Columns {
		out = append(out, inputColumn{name: schema.Columns[i].Name, kind: schema.Columns[i].Type})
	}
	return out
}

// Write adds records.
func (w *ParquetWriter) Write(ctx context.Context, records []record.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var values []driver.Value
	err := w.conn.Raw(func(raw any) error {
		return appendRows(raw, Table, len(records), func(i int) []driver.Value {
			values = values[:0]
			for k := range schema.Columns {
				values = append(values, schema.Columns[k].Value(&records[i]))
			}
			return values
		})
	})
	if err != nil {
		return fmt.Errorf("audit export: %w", err)
	}
	w.count += int64(len(records))
	return nil
}

// Finish writes the file (zstd, ordered by time) and returns how many records it holds.
func (w *ParquetWriter) Finish(ctx context.Context) (int, error) {
	part := filepath.Join(w.scratch, "part.parquet")
	result, err := w.conn.ExecContext(ctx, fmt.Sprintf(
		"COPY (SELECT %s FROM %s ORDER BY time, proxy, epoch, seq) TO '%s' (FORMAT parquet, COMPRESSION zstd)",
		Columns(), Table, strings.ReplaceAll(part, "'", "''")))
	if err != nil {
		return 0, fmt.Errorf("audit export: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n != w.count {
		return 0, errors.Join(fmt.Errorf("audit export: DuckDB wrote %d of %d records", n, w.count), err)
	}
	// Like the log itself it is for its owner only. Link, unlike Rename, does not overwrite.
	if err := errors.Join(os.Chmod(part, 0o600), os.Link(part, w.file)); err != nil {
		return 0, fmt.Errorf("audit export: %w", err)
	}
	return int(w.count), nil
}

// Close removes what is left of the work.
func (w *ParquetWriter) Close() error {
	var errs []error
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	if w.db != nil {
		errs = append(errs, w.db.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(w.scratch))...)
}
