// Package outbound renders what a sidecar does with what its app sends.
//
// In: a host as the model sees it (resolve.SidecarHost), or what the base depends on (Inputs). Out: rows, clusters and names of the host; listeners, tables and
// the ways to the gateways.
package outbound
