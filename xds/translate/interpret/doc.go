// Package interpret says what Envoy would do with one connection, from its resources alone. It is for tests: what policy
// decides is held against what proxies are programmed to do, many thousand times a second and without an Envoy.
//
// In: the resources of one proxy (New), and a connection with what its client says (Connect). Out: an Outcome: where it was
// sent and what was said there, or who answered, and the entries of the access log. What is sent may be the connection of
// another proxy's (Upstream.Arrives).
//
// It knows Envoy's messages and nothing of ours, neither names nor headers. A field, extension, format or expression that it does not
// know, and that could change what happens, is an error that names it (known.go lists what is known): who makes proxies do
// something new has to teach it here. What it knows of Envoy 1.40 was read in Envoy's documents and tried with real ones;
// TestExplainAgreesWithEnvoy in e2e holds both together.
//
// It imports Envoy's messages, and nothing of this module.
package interpret
