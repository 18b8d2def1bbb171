// Package ender ends TCP connections for a process that has no right to.
//
// Server runs in a process of its own, with CAP_NET_ADMIN and nothing else, and listens on a Unix socket that only that other process
// can open. In: a connection's addresses and its cookie. Out: the connection is reset, if it is one of the ports that the server was
// given, and still the same. Client asks it. Neither listens nor connects to anything else, and both forget each request.
//
// Child takes no second process, nor a right: it ends connections of a process that it is the parent of, by a copy of the descriptor, or, where it may take none, by having
// that process do it (docs/adr/0133-a-proxy-ends-its-own.md).
package ender
