// Package hostile is a DNS server for tests that behaves as it is told: right, slow, silent, wrong in one particular
// way, or in the way of old and broken servers.
//
// In: a Behaviour by UDP and one by TCP or TLS; out: an address on the loopback and what was asked there. Only tests
// import it. It imports nothing of this module.
package hostile
