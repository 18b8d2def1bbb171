// Package compress is how a control plane's answers are made smaller on their way to agents.
//
// In: the bytes of resources as they were sealed. Out: frames of Zstandard (RFC 8878), which are made once for all who are sent the same
// resources, and go over the wire one after the other in place of the message. A client says that it reads them by a header of its stream
// (Client), and that it makes the versions itself, which are hashes and compress least; Envoy itself, and whoever does not say so, gets messages as they are.
//
// gRPC's own compression is per stream: it would compress the same bytes again for each of a thousand proxies, and copy them.
package compress
