// Package envoy builds Envoy's messages: listeners, filters, routes, clusters, TLS and the access log, each bounded, and the question that a connection asks of a
// table (ask.go, answer.go; docs/adr/0011-bytes-arrive-whole.md). It knows no registry: what is registered, and what follows from it, is its caller's.
//
// This package and those below xds/translate are the only ones that write Envoy's configuration types.
package envoy
