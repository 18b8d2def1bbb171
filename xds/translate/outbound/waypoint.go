package outbound

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// toWaypoint is the cluster of a port that a waypoint stands before.
func (h *Host) toWaypoint(port registry.Port) []*resource.Resource {
	role := wire.RoleMesh
	if h.Service.External {
		role = wire.RoleWaypoint
	}
	md := farend.OpaqueRevision(envoy.Metadata(role, envoy.ObjectRef(h.Service.SourceOf(port))), h.Service, port)
	return farend.ToWaypoint(h.Waypoint, h.Service, port, h.Trust, h.Connect, md)
}

// requestsToWaypoint is the route of requests that go there, as they came: what becomes of them is told there.
func (h *Host) requestsToWaypoint(port registry.Port) *routev3.Route {
	row := envoy.Route("default", envoy.MatchAnyRequest(), envoy.ToClusterRetried(wire.ClusterName(port.Number, h.Service.Host)))
	return envoy.WithoutHTTP11Only(envoy.EnableFilters(row, farend.ProtocolTranslations(port)...))
}
