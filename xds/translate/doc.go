// Package translate says HOW a proxy is programmed: it turns the registry's snapshot into Envoy's resources.
//
// In: a snapshot, what changed since the last one, and a Class (a kind of proxy that gets the same bytes).
// Out: a View, the sealed resources of that class, and the references of those that differ.
//
// There is a package a role (outbound, inbound, egressgateway), each of which renders what the model (serviceentry/resolve) says about
// a host there. What a host became is kept under what it was made from (inputs.go). A host's resources do not depend on other hosts,
// and a proxy's base does not list hosts: see docs/adr/0002-no-listener-lists-hosts.md.
package translate
