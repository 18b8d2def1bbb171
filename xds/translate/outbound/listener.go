package outbound

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
)

// inspectors find out what is spoken, except on ports where the server speaks first, or that the mesh's settings name: looking for the client's first
// bytes there would only make it wait, and one that sends little and shuts its side at once would be reset; and except on other ports that are given.
func (in Inputs) inspectors(except ...uint32) []*listenerv3.ListenerFilter {
	list := []*listenerv3.ListenerFilter{
		envoy.InspectTLS(),
		envoy.InspectHTTP(),
	}
	for _, f := range list {
		f.FilterDisabled = envoy.MatchPorts(slices.Concat(except, registry.ServerFirstPorts(), in.TCPPorts))
	}
	return list
}
