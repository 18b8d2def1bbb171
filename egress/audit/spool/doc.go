// Package spool keeps audit records on the local disk until somebody acknowledged them.
//
// In: records (Append), acknowledgements (Ack). Out: batches of records in the order they were appended (Next).
// Append numbers the records; what it accepted survives the death of the process, because each frame is written to
// the file before Append returns. They are on disk as they travel, so that shipping is copying. Space is bounded: when it runs out, the oldest unacknowledged segment makes room
// and a record of class gap says how many records went with it.
//
// The static agent carries this package: it imports the standard library, golang.org/x/sys, the record and its wire format, and must
// import neither gRPC nor protobuf.
//
// # Files
//
//	lock                       flock of the one process that owns the folder
//	epoch                      the epoch, and the boot of the host in which it holds
//	owed                       how many records are lost that no gap record tells of, since the disk is full: overwritten in its place
//	acked                      highest acknowledged sequence number (a hint: losing it costs duplicates, not records)
//	00000000000000000001.seg   a segment, named by the sequence number of its first frame
package spool
