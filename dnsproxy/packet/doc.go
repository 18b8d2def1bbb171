// Package packet reads questions and writes answers in DNS wire format (RFC 1035, RFC 6891) without allocating: what
// a resolver does for every question that it can answer by itself.
//
// In: the bytes of a question; out: a Query that points into them, and functions that append an answer to a buffer.
// Messages that come from upstream are for a full parser; this package only measures and patches the ones that such
// a parser has packed. It imports nothing of this module.
package packet
