package outbound

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// silent is where a pod's proxy, that of its node or a sidecar, waits longer for clients that have said nothing at an address, or a port, where they speak first. What begins as a request or as TLS
// goes to the pod's listener once more; of who still says nothing, or something else, the table is asked as of anybody, and tells what the port is for.
func (in Inputs) silent() []*resource.Resource {
	l := envoy.InternalListener(wire.SilentName, append([]*listenerv3.ListenerFilter{envoy.OriginalDst()}, envoy.InspectSpoken()...),
		envoy.FilterChain(chainTLS, envoy.MatchTLS(), envoy.ConnectAgain()...),
		envoy.FilterChain(chainHTTP, envoy.MatchHTTP(), envoy.ConnectAgain()...),
	)
	rest := tunnel{table: envoy.TableFormat, all: in.Pods, silent: true, stat: wire.SilentName, mesh: in.Mesh, told: in.Ends}
	l.DefaultFilterChain = envoy.FilterChain(chainTCP, nil, append([]*listenerv3.Filter{envoy.KnowSilent()}, rest.filters()...)...)
	patience := in.Silence
	if in.Pods { // whose ports 80 and 443 come here, too, where nothing is known of the address
		patience = in.DetectWeb
	}
	again := envoy.WithConnectTimeout(envoy.OriginalDestination(wire.SilentAgain, wire.RoleInner), in.Connect)
	if !in.Pods { // a node's connects from the pod's network
		envoy.FromLoopback(envoy.ConnectFrom(again, wire.PassthroughSource, wire.PassthroughSource6))
	}
	return []*resource.Resource{
		envoy.SealCluster(envoy.InternalCluster(wire.SilentName)),
		envoy.SealCluster(again),
		envoy.Seal(resource.Listener, wire.SilentName, envoy.WithDetectionTimeout(l, patience)),
	}
}

// waits says whether a route ends connections at whose address clients speak first, so that those that have said nothing are waited for.
func waits(r *resolve.Route) bool {
	return r.Action == resolve.WrongProtocol && r.For == resolve.Connections && r.HTTP == nil && r.L4 == nil
}
