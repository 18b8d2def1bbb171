// Package authz says what Istio's AuthorizationPolicies make of a request or a connection: which count, which rule decides, and what
// of it is about requests alone.
//
// In: the specs of AuthorizationPolicies (parse.go, the only file that knows their API), and what a proxy sees. Out: neutral values
// that are rendered by xds/translate/authzfilter, whatever the proxy's role, and walked by policy with one concrete request. What a
// value means is said once, as an expression (RE2) for an attribute's text: proxies and Decide use the same.
//
// The package imports nothing of this module but config, egresspolicy, for what paths are, and selection, and no type of Envoy's.
package authz
