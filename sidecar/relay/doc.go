// Package relay stands between one Envoy and the controller, and speaks delta xDS with both.
//
// In: Envoy's subscriptions over the agent's socket, the controller's resources; out: the same resources to Envoy,
// its ACKs and NACKs to the controller, and the agent's own types (the DNS names) to whoever watches them. Resources
// are opaque bytes here: only their names, versions and aliases are read.
//
// The relay ends both protocols itself. It keeps what Envoy accepted (package state), so that it can
//
//   - tell the controller on every new stream what is held already: nothing equal is sent twice;
//   - answer Envoy from disk when the controller does not answer within Config.Grace;
//   - hold back the ACK to the controller until Envoy has given its own;
//   - hold back names until Envoy has given its word about what they lead to (Watch.Last);
//   - give Envoy virtual hosts when they are used (Relay.Use), where its route tables say so. These are kept without Envoy's word.
//
// What Envoy rejected is not kept otherwise. Of a rejected response with several resources the relay finds the bad ones by
// sending halves of it, so that the good ones are kept.
//
// All decisions are in machine, which has no goroutine and no clock; Relay moves messages to and from it. The package
// imports of Envoy's protos only service/discovery and config/core.
package relay
