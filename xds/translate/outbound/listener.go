package outbound

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
)

// inspectors find out what is spoken, except on ports where the server speaks first: looking for the client's first
// bytes there would only make it wait; and except on other ports that are given.
func inspectors(except ...uint32) []*listenerv3.ListenerFilter {
	list := []*listenerv3.ListenerFilter{
		envoy.InspectTLS(),
		envoy.InspectHTTP(),
	}
	for _, f := range list {
		f.FilterDisabled = onPorts(slices.Concat(except, registry.ServerFirstPorts()))
	}
	return list
}

func onPorts(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	set := &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{}
	for _, p := range ports {
		set.Rules = append(set.Rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
			},
		})
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{OrMatch: set}}
}
