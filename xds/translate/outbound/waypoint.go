package outbound

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/wire"
)

// toWaypoint is the cluster of a port that a waypoint stands before: the same name, and everything goes to the waypoint's pods, by mutual TLS
// whose name says which port of which Service it is for. A connection is one of an app's, or carries its requests, so that every byte of it arrives.
func (h *Host) toWaypoint(port registry.Port) []*resource.Resource {
	var identities []string
	for _, account := range h.Front.Accounts {
		identities = append(identities, h.Trust.Account(h.Front.Gateway.Namespace, account)...)
	}
	name, role := wire.ClusterName(port.Number, h.Service.Host), wire.RoleMesh
	if h.Service.External {
		role = wire.RoleWaypoint
	}
	way := farend.Options{Connect: h.Connect, Mutual: farend.Mutual{To: resolve.MutualAlways, SNI: resolve.SNI(port.Number, "", h.Service.Host), Identities: identities}}
	tabled := &registry.Service{Host: h.Service.Host, Source: config.Key{Kind: config.KindService}, Resolution: registry.Static}
	out := farend.Cluster(resource.Cluster, name, tabled, port, way, farend.OpaqueRevision(envoy.Metadata(role, envoy.ConfigOf(h.Service.SourceOf(port))), h.Service, port))
	return append(out, farend.SealLoad(name, registry.WaypointPort, farend.Together(h.Front.Endpoints)))
}

// requestsToWaypoint is the route of requests that go there, as they came: what becomes of them is told there.
func (h *Host) requestsToWaypoint(port registry.Port) *routev3.Route {
	row := envoy.Route("default", envoy.AnyRequest(), envoy.Retried(wire.ClusterName(port.Number, h.Service.Host)))
	return envoy.WithoutAlone(envoy.Through(row, farend.Translations(port)...))
}
