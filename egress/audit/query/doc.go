// Package query reads the audit log.
//
// In: a Filter or a SELECT statement. Out: records, rows or counts, and their presentation (table, JSON, CSV, OCSF).
// A Source answers either by the socket of a running audit server or, when there is none, from the database file. A
// filter's values reach DuckDB as parameters only; raw SQL is one SELECT in a read-only transaction on a database that
// can reach no file (see store).
package query
