// Package presence knows which proxies are connected to controllers, so that those can be found of which the audit log has nothing.
//
// In: lists that controllers tell, by a stream of gRPC (Tell, Service). Out: who is connected, and since when (Register.Connected). Nothing of it is on disk: a server that
// begins knows it when controllers have told it again.
package presence
