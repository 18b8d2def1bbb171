// Package agent puts the parts of a pod's proxy together and runs them until they are told to end.
//
// In: a Config; out: a running Envoy with its configuration, certificates, names and access logs going through one
// Unix socket (RUN/agent.sock), and everything gone again when the context ends.
//
// The order of the end matters: Envoy drains and ends while everything that it needs still runs, then its last
// access logs are shipped, then the rest stops.
package agent
