package envoy

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
)

// orders begin the headers by which Envoy can be told what to do, and those that mean something among proxies.
var orders = []string{"x-envoy-", "x-forwarded-client-cert", "x-sallyport-"}

// withoutOrders takes such headers out of requests before anything reads them: the clients of an exit are strangers, and
// what proxies tell each other does not go outside.
func withoutOrders() []*corev3.TypedExtensionConfig { return without(orders...) }

// without takes headers out by how their names begin.
func without(all ...string) []*corev3.TypedExtensionConfig {
	mutation := &earlyv3.HeaderMutation{}
	for _, begins := range all {
		mutation.Mutations = append(mutation.Mutations, &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
			RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: Prefix(begins)},
		}})
	}
	return []*corev3.TypedExtensionConfig{{Name: "envoy.http.early_header_mutation.header_mutation", TypedConfig: Packed(mutation)}}
}
