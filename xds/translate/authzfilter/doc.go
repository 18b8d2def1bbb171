// Package authzfilter renders AuthorizationPolicies as the rules that proxies keep (RBAC by matching trees), of requests and of
// connections.
//
// In: the policies that are for a proxy, and how things are seen where they are kept (Inputs). Out: trees, and filters of them. It knows
// no roles: what a client is, or a port, its caller says.
package authzfilter
