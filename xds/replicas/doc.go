// Package replicas is how the leading controller learns what only the others know: how far the proxies are that are connected to them.
//
// In: where replicas are, and what is asked. Out: what all of them say together, and which of them did not answer. They speak gRPC over
// the port that agents come to, and answer nobody but the control plane's own identity.
package replicas
