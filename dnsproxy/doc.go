// Package dnsproxy is the resolver that applications in a pod, Envoy itself and the explicit forward proxy ask.
//
// In: questions by UDP and TCP, the name table (Table.Apply), upstream resolvers. Out: answers, metrics
// (Server is a prometheus.Collector) and, for the audit log, one Decision a question.
//
// A question goes this way, and the first that knows answers:
//
//	held until the table has come ─► name table ─► policy ─► cache ─► limits ─► upstream ─► guard ─► cache
//
// A View is one such way with its own addresses to listen on: the applications' has the name table, Envoy's own has
// not. Views share nothing in the cache.
//
// The rules are those of RFC 1035 and 2181 (messages, TTLs), 2308 and 9520 (negative answers and failures), 6891
// (EDNS), 7766 (TCP), 7873 (cookies), 7858 (TLS), 8767 (stale answers), 8914 (extended errors), 9619 (one question).
//
// It imports only its own subpackages, and config/inside: what is written to the audit log, and who pushes the table, is the caller's
// business.
package dnsproxy
