// Package lake brings the audit log to object storage as Parquet (an S3 API, or a folder), and reads it back there.
//
// In: a store.Store, and where the lake is. Out: files of OCSF events (columns.go) by region, cluster and day, ordered by time, each record
// in one of them; a log that says which files count (content); a query.Source over such a lake (Open).
//
// One goroutine writes (Writer). What it is about to do is on disk first (state.go), so that a process that is killed at any point does
// the same again, under the same names, or finds it done. Credentials come from files and the environment; no error and no log has them.
package lake
