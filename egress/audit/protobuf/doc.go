// Package protobuf reads and writes audit records, and reads Envoy's log entries, in protobuf's wire format, without generated messages: a
// proxy's agent does it for every request that its pod makes, and most of what it would cost was making messages of which a few texts are
// used.
//
// In: a record, or bytes; out: bytes, a record, or the fields of any message (Scan). It imports the standard library and the record.
// That a record's fields are those of ingest/ingestpb/ingest.proto is held by a test of package ingest (docs/adr/0023-what-a-record-costs.md).
package protobuf
