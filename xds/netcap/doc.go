// Package netcap caps the connections of a listener: in all, and of each peer's address.
//
// In: a net.Listener; out: one that closes what is too much, before a byte is read of it. Shares are how peers share other room, such as
// bytes that are read. It imports nothing of ours, so
// that every server of the project can use it.
package netcap
