// Package table keeps an Iceberg table of what is in a lake, through a REST catalog.
//
// In: a place with a lake (content's logs say which files count), and a catalog. Out: a table whose current snapshot has those files and no others.
//
// It keeps nothing of its own. Each pass reads the table first, then the lake's logs, and commits the difference as one snapshot, on the condition that the
// table's is still the one that was read. So a process that is killed, or one of two that run at once, leaves nothing half done and nothing twice.
package table
