// Package limit keeps one client from making the resolver ask upstream as much as it likes, and tells the questions
// that tunnels through DNS are made of.
//
// In: who asks, and a question; out: whether it may be asked, and what is odd about it. It imports nothing of
// this module.
package limit
