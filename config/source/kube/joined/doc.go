// Package joined keeps the WorkloadEntries of machines in the API server.
//
// In: what is to stand, from machines.Keeper. Out: objects that their WorkloadGroup owns, with Istio's annotations of which replica of the control plane
// has the machine's connection, and since when, and its condition Healthy. A replica writes over another one's word only where its own connection is the later
// one, and removes only what is its own: a machine that has moved to another replica is that one's.
package joined
