package outbound

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

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
		f.FilterDisabled = envoy.AmongPorts(slices.Concat(except, registry.ServerFirstPorts()))
	}
	return list
}
