package envoy

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
)

// proxyHeaders begin the headers by which Envoy can be told what to do, and those that mean something among proxies.
var proxyHeaders = []string{"x-envoy-", "x-forwarded-client-cert", "x-sallyport-"}

// withoutProxyHeaders takes such headers out of requests before anything reads them: the clients of an exit are strangers, and
// what proxies tell each other does not go outside.
func withoutProxyHeaders() []*corev3.TypedExtensionConfig { return without(proxyHeaders...) }

// without takes headers out by how their names begin.
func without(all ...string) []*corev3.TypedExtensionConfig {
	mutation := &earlyv3.HeaderMutation{}
	for _, begins := range all {
		mutation.Mutations = append(mutation.Mutations, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
			RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: Prefix(begins)},
		}})
	}
	return []*corev3.TypedExtensionConfig{early(mutation)}
}

// early changes headers before anything reads them.
func early(mutation *earlyv3.HeaderMutation) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: ToAny(mutation)}
}

// askedPlain says of requests that nobody said it of how their client asked: without TLS of its own, since otherwise they were not read here. An ingress
// gateway says it of what its clients ask for, and Envoy would say it of the mesh's TLS.
func askedPlain() *corev3.TypedExtensionConfig {
	return early(&earlyv3.HeaderMutation{Mutations: []*mutationv3.HeaderMutation{{Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
		Header: &corev3.HeaderValue{Key: "x-forwarded-proto", Value: "http"}, AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
	}}}}})
}
