// Package sockdiag finds the TCP connections of its network namespace, and ends single ones: the kernel's socket diagnostics, sock_diag(7).
//
// In: a connection's two addresses, and, to end it, the cookie by which the kernel knows this connection from another one that has the
// same addresses later. Finding takes no rights. Ending takes CAP_NET_ADMIN in the namespace: both ends see a reset
// (SOCK_DESTROY, RFC 9293 section 3.10.5's ABORT).
package sockdiag
