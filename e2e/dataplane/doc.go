// Command dataplane measures what the programmed path costs beside one that was written by hand.
//
// In: the built programs. Out: a table of ratios beside their targets. Two worlds (package world) are set side by side
// with the same hosts, the same redirect rules, the same Envoy and the same servers. In one, agents and
// controller program the Envoys (package story). In the other, static files do what one would write by hand for that
// one host: a filter chain for its name, one mTLS connection for each of the client's, tcp_proxy at the gateway; plain
// HTTP over HTTP/2 and mTLS to the gateway, which originates TLS. Three ways are measured: to the server outside by the egress gateway, from
// pod to pod, and from a client outside by an ingress gateway to a pod. What pods let in is in no log, of both sides, as is usual.
//
// The rounds of the two are interleaved, so that what else the machine does hits both. The Envoys have a processor of
// their own; clients, servers and agents share another one. The controller and its audit store rest during the rounds:
// they run elsewhere in a real mesh. Agents do not: they take every access log entry and write it to their spool.
//
// With -ambient the two sides are another pair, in one world: the one Envoy of a node, for pods without sidecars, and sidecars. Beside traffic, memory and the time that
// a pod takes to be added are measured then.
//
// With -names it says what an ingress gateway's proxy takes for a name, and with -policies what EgressPolicies cost a request.
//
// The program starts itself as client and as server inside the namespaces.
package main
