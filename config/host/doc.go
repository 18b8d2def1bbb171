// Package host reads host names and host patterns as users write them in hosts fields.
//
// A string comes in, a normalised Name or an error that says what to write instead goes out. Two Names that mean
// the same host are equal. The package resolves nothing and imports nothing of this module, so that agents, the
// control plane and the command line share it.
package host
