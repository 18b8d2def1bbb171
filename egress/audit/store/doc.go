// Package store keeps audit records in one DuckDB file (engine 1.5, by github.com/duckdb/duckdb-go).
//
// In: batches of records (Store, an ingest.Sink), each durable when Store returns, copies dropped by (proxy, epoch,
// seq). Out: a *sql.DB over the tables for readers, the distinct inputs of the records (EachInput), the new records for those who follow
// (Follow), Parquet.
//
// One goroutine writes: it takes all batches that wait, and writes them in one transaction. Another one gathers inputs of what is
// stored (gather.go). SQL on the database can
// reach no file and no setting (see open.go), so that readers may be given raw SQL. The columns are those of package schema; a
// folder that an older version wrote is migrated when it is opened, and a newer one's is refused (see migrate.go).
//
// It must not import query, server or the console.
package store
