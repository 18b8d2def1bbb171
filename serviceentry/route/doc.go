// Package route holds what users say about the way of requests and connections, in neutral values: which of them are
// meant, and what becomes of those.
//
// In: the specs of VirtualServices (parse*.go, the only files that know their API). Out: routes, in order, that can be
// hashed (as JSON), rendered by xds/translate and walked by policy with one concrete request. What a match means here is
// what Envoy 1.40 makes of it; each type says the page of Istio's API that it is from.
//
// The package imports nothing of this module but config and config/host, no type of Envoy's and none of Kubernetes'.
package route
