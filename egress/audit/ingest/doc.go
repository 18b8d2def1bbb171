// Package ingest carries batches of audit records from where they are made to where they are stored.
//
// In: a spool (Ship) or a slice of records (Client). Out: calls of a Sink, and the acknowledgement on the way back.
// A batch is acknowledged only when the sink said that it is durable, so a chain agent → controller → audit server
// acknowledges end to end. Delivery is at least once; the sink drops copies.
//
// The wire is the service of ingestpb/ingest.proto: a stream of batches (see EncodeBatch), each answered by the highest
// sequence number in it (docs/adr/0022-what-is-generated.md).
//
// The static agent carries this package: it must not import the store.
package ingest
