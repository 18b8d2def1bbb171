// Package upstream asks recursive resolvers: UDP first, TCP when the answer does not fit, one server after the other
// until one answers or patience ends.
//
// In: a question and the servers; out: a parsed response that belongs to that question and holds only records that
// do (Scrub), or an error that says what each server did. Nothing is kept between questions but each server's recent
// health. It imports nothing of this module.
package upstream
