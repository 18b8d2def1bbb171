// Package translate says HOW a proxy is programmed: it turns the registry's snapshot into Envoy's resources.
//
// In: a snapshot, what changed since the last one, and a Class (a kind of proxy that gets the same bytes).
// Out: a View, the sealed resources of that class, and the references of those that differ.
//
// Every translator is a pure function of narrow arguments; what it made is kept under the hash of those
// arguments. A host's resources (host_sidecar.go, host_exit.go) do not depend on other hosts, and a proxy's base
// (base_sidecar.go, base_exit.go) does not list hosts: see docs/adr/0002-no-listener-lists-hosts.md.
//
// This is the only package that writes Envoy's configuration types.
package translate
