package farend

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// WildcardAnswer hands a tunnel to a pattern's host to the internal listener where names are looked up.
func WildcardAnswer(listener, cluster string, svc *registry.Service, port registry.Port) envoy.Answer {
	return envoy.Answer{Route: "default", Cluster: listener, Revision: svc.RevisionOf(port), LoggedBy: envoy.LoggedInside, Behind: cluster, Port: wire.RouteName(port.TargetPort)}
}

// ConnectByName says which name and port a cluster of a wildcard connects to: the request's own, which is looked up first.
// Other clusters know theirs.
func ConnectByName(r *routev3.Route, svc *registry.Service, port uint32) *routev3.Route {
	if !svc.Wildcard() {
		return r
	}
	return envoy.EnableFilters(envoy.WithState(r, envoy.State(wire.StateDynamicPort, wire.RouteName(port), envoy.NotShared)), envoy.FilterDynamicForwardProxy)
}

// ProtocolTranslations are the filters that turn requests of a port into others: gRPC-Web, of browsers, into gRPC.
func ProtocolTranslations(port registry.Port) []string {
	if port.Protocol == registry.HTTP2 {
		return []string{envoy.FilterWeb}
	}
	return nil
}
