// Package controlplane puts the control plane together: a source feeds the registry, the registry's snapshots go to
// the xDS cache, and the servers let proxies, agents and operators in.
//
// In: a Config. Out: a running control plane until the context ends. It holds wiring only; `sallyport controller` and
// `sallyport up` are two ways to start it.
package controlplane
