// Package cache keeps sealed answers, bounded in bytes, in a way that one scan over many names does not push out the
// names that are asked all the time.
//
// In: an answer with the times at which it ages; out: the same answer for the same key. When an answer may still be
// given, how stale, and who fetches it again, is the resolver's business. It imports only dnsproxy/packet.
package cache
