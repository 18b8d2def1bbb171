// Package egresspolicy says what EgressPolicies make of a request or a connection: who they are for, which rule decides, and what is
// left to others to decide.
//
// In: the specs of EgressPolicies (parse.go, the only file that knows their API), and what a proxy sees of a request. Out: neutral
// values that can be compared, rendered by xds/translate and walked by policy with one concrete request.
//
// The package imports nothing of this module but config/..., no type of Envoy's and none of Kubernetes'.
package egresspolicy
