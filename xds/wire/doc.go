// Package wire holds what both ends of a wire must write alike: the names in Envoy's configuration and in its log, the keys of metadata and filter state, and how a
// tunnel says whereto it wants. Translation writes them, and agents, the log and the tools read them back.
//
// It imports nothing of ours, and holds names only: what is in every pod links it.
package wire
