// Package schema is the one list of the columns that a record has: the store's table and what is read back from it, Parquet files, the
// formats of "sallyport audit", and the table in docs/how-to/audit-log.md all come from it.
//
// In: nothing; out: Columns. A column that is added gets the next Version as its Since; the store migrates older folders
// (store/migrate.go). Columns are never removed, renamed or given another type: files that were written before stay readable beside new ones.
//
// It imports the record only.
package schema
