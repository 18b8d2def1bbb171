// Package secrets keeps the workload's certificate on the agent's side: asks the controller for it, stores it,
// renews it, and serves it to Envoy over SDS.
//
// In: the token file, the file with the controller's roots, a gRPC connection to the controller, and what an earlier
// run of the agent left in the state folder (the controller may be dead when the agent starts). Out: Envoy's secrets
// `default` and `ROOTCA`, pushed on each rotation; the same in the state folder (key.pem, cert-chain.pem,
// root-cert.pem); the credentials of the agent's own connection.
//
// It imports nothing of this module, and little beside gRPC: the agent is small. Envoy's TLS messages cost about
// 0.4 MiB of resident memory, so they are not encoded by hand.
package secrets
