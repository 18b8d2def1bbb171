package outbound

import (
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
	name := wire.ClusterName(port.Number, h.Service.Host)
	way := farend.Options{Connect: h.Connect, Mutual: farend.Mutual{To: resolve.MutualAlways, SNI: resolve.SNI(port.Number, "", h.Service.Host), Identities: identities}}
	out := farend.Cluster(resource.Cluster, name, h.Service, port, way, farend.OpaqueRevision(envoy.Metadata(wire.RoleMesh, envoy.ConfigOf(h.Service.SourceOf(port))), h.Service, port))
	return append(out, farend.SealLoad(name, registry.WaypointPort, farend.Together(h.Front.Endpoints)))
}
