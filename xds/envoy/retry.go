package envoy

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// otherHosts has the next try go to another endpoint than those that were tried, where the cluster has one.
var otherHosts = []*routev3.RetryPolicy_RetryHostPredicate{{
	Name: "envoy.retry_host_predicates.previous_hosts",
	ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
		TypedConfig: ToAny(&hostsv3.PreviousHostsPredicate{}),
	},
}}

// picks is how often an endpoint that was not tried yet is looked for before one is taken as it comes. Of two alike the dead one is taken again once in 2^16 retries; with
// Istio's 5 it would be once in 32.
const picks = 16

// Retry tries a request up to so many times more where a condition holds, at endpoints that were not tried yet.
func Retry(times uint32, on string) *routev3.RetryPolicy {
	return &routev3.RetryPolicy{
		NumRetries: wrapperspb.UInt32(times), RetryOn: on,
		RetryHostPredicate: otherHosts, HostSelectionRetryMaxAttempts: picks,
	}
}

// RetryByDefault is Istio's default: only where the server cannot have seen the request.
func RetryByDefault() *routev3.RetryPolicy {
	return Retry(2, "connect-failure,refused-stream,reset-before-request")
}
