// Package record holds the one value that everything about auditing passes on: a Record of a connection, a
// request, a DNS decision, or of a gap where records were lost.
//
// In: nothing; out: plain values with their OCSF class. It imports only the standard library, because the data
// plane's agent carries it.
package record
