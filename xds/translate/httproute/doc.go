// Package httproute renders users' routes of requests, as serviceentry/route has them, for whichever proxy follows them.
//
// In: a route, one of its matches, and for each destination what it comes to at the proxy (End). Out: a route of Envoy's. What a match means is
// said in serviceentry/route, whose tests and this package's (with a real Envoy) have the same cases.
package httproute
