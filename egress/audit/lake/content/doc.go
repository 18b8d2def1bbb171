// Package content says what is in a lake: files of events, and the logs that say which of them count.
//
// In: a place.Place. Out: Contents, one for each writer. Whoever reads or writes a lake by its logs uses it; it links no database.
package content
