// Package name holds one line of the name table that the control plane pushes to the proxies' resolvers: a host, the
// addresses that it answers with, and the other names that answer the same. One resource, Everything, says what becomes
// of names that no line is about.
//
// In: bytes of the delta xDS type TypeURL, one resource a host; out: plain values, and the same bytes again. The
// control plane and the agent both carry it, so it imports nothing of this module and no DNS library.
package name
