// Package policyfilter renders EgressPolicies as the rules that proxies keep (RBAC by matching trees).
//
// In: who of a namespace is governed by which policies (resolve.Governed), or a workload's own set. Out: resources of their own, one
// for each level and namespace, that a listener's filters name: no listener, route or host is made again for a policy.
//
// At a gateway two filters, Root and Own, look the client's namespace up in an index, by its certificate, and keep what is there
// for it. At a sidecar, and at a forward proxy, the filters hold the rules themselves, of the one workload that they are for.
package policyfilter
