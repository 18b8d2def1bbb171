// Package envoylog reads Envoy's access log entries as audit records.
//
// In: the messages of a stream of the access log service, as they come over the wire, from one Envoy whose node is known. Out: records,
// without the numbers that the spool gives them. Of an entry the fields that a record needs are read, and nothing is made of the others. Entries that another entry tells better are left out: the leg from a sidecar to a
// gateway that took it (the gateway reports it), and a tunnel that a listener behind reports.
//
// The data plane's agent links this package: it imports the record, its wire format and xds/wire only.
package envoylog
