// Package datagram reads questions from UDP sockets and writes their answers, several a system call where the kernel
// can (recvmmsg, sendmmsg on Linux), without allocating. Of the cost of answering from memory nine tenths are system
// calls.
//
// In: a bound socket; out: a Batch of datagrams, each with who sent it and, if asked for, with the address that it
// came to, and the way back. It imports nothing of this module.
package datagram
