// Package envoylog reads Envoy's access log entries as audit records.
//
// In: a message of the access log service, from one Envoy whose node is known. Out: records, without the numbers
// that the spool gives them. Entries that another entry tells better are left out: the leg from a sidecar to a
// gateway that took it (the gateway reports it), and a tunnel that a listener behind reports.
//
// The data plane's agent links this package: it imports the entry types, the record and xds/accesslog only.
package envoylog
