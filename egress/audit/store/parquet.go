package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// ParquetWriter collects records and writes them as one Parquet file with the table's columns. The store itself
// cannot write files; this runs in the process of whoever wants the file, with that user's rights.
type ParquetWriter struct {
	file    string
	scratch string // a folder beside the file, for a store that holds the records meanwhile
	store   *Store
	count   int
}

// NewParquetWriter prepares for a file, which must not exist.
func NewParquetWriter(ctx context.Context, file string) (*ParquetWriter, error) {
	if _, err := os.Lstat(file); err == nil {
		return nil, fmt.Errorf("audit export: %s exists: give another name or remove it", file)
	}
	scratch, err := os.MkdirTemp(filepath.Dir(file), ".audit-export-")
	if err != nil {
		return nil, fmt.Errorf("audit export: %w", err)
	}
	s, err := Open(ctx, scratch, Options{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(scratch))
	}
	return &ParquetWriter{file: file, scratch: scratch, store: s}, nil
}

// Write adds records.
func (w *ParquetWriter) Write(ctx context.Context, records []record.Record) error {
	w.count += len(records)
	return w.store.Store(ctx, records)
}

// Finish writes the file (zstd, ordered by time) and returns how many records it holds.
func (w *ParquetWriter) Finish(ctx context.Context) (n int, err error) {
	if err := w.store.Close(); err != nil {
		return 0, err
	}
	// A second connection to the scratch store, this one with leave to write files.
	connector, err := duckdb.NewConnector(filepath.Join(w.scratch, FileName)+"?memory_limit=512MB&threads=2", nil)
	if err != nil {
		return 0, fmt.Errorf("audit export: %w", err)
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	part := filepath.Join(w.scratch, "part.parquet")
	query := fmt.Sprintf("COPY (SELECT %s FROM %s ORDER BY time) TO '%s' (FORMAT parquet, COMPRESSION zstd)",
		Columns(), Table, strings.ReplaceAll(part, "'", "''"))
	if _, err := db.ExecContext(ctx, query); err != nil {
		return 0, fmt.Errorf("audit export: %w", err)
	}
	// Like the log itself it is for its owner only. Link, unlike Rename, does not overwrite.
	if err := errors.Join(os.Chmod(part, 0o600), os.Link(part, w.file)); err != nil {
		return 0, fmt.Errorf("audit export: %w", err)
	}
	return w.count, nil
}

// Close removes what is left of the work; call it in any case.
func (w *ParquetWriter) Close() error {
	return errors.Join(w.store.Close(), os.RemoveAll(w.scratch))
}
