// Package upstream asks recursive resolvers: the fastest one first, another one when it takes too long, until one
// answers or patience ends.
//
// In: a question and the servers (UDP, TCP or DNS over TLS); out: a parsed response that belongs to that question and
// holds only records that do (Scrub), or an error that says what each server did. Nothing is kept between questions
// but open connections, and what each server was found to be like: its round-trip time, whether it is ill, whether it
// keeps the case of names, its DNS cookie. It imports nothing of this module.
//
// An answer by UDP is taken when it comes from the server's address and port to a socket that asked nobody else, has
// the id and the question, the question in the case that was chosen at random (0x20), and our cookie where the server
// is known to have cookies (RFC 5452, RFC 7873). What is right but for the last two is asked again by TCP, which a
// forger off the path cannot answer.
package upstream
