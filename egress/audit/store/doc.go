// Package store keeps audit records in one DuckDB file.
//
// In: batches of records (Store, an ingest.Sink), each durable when Store returns, copies dropped by (proxy, epoch,
// seq). Out: a *sql.DB over the tables for readers, the new records for those who follow (Subscribe), Parquet.
//
// One goroutine writes: it takes all batches that wait, and writes them in one transaction. SQL on the database can
// reach no file and no setting (see open.go), so that readers may be given raw SQL.
//
// It must not import query, server or the console.
package store
