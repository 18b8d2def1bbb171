package farend

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// ToWaypoint is the cluster of a port that a waypoint stands before, with its endpoints: the name is that of the way past it, and everything goes to the
// waypoint's pods, by mutual TLS whose name says which port of which Service it is for. A connection is one of an app's, or carries its requests, so that every
// byte of it arrives.
func ToWaypoint(front *resolve.WaypointHop, svc *registry.Service, port registry.Port, trust envoy.TrustDomains, connect time.Duration, md *corev3.Metadata) []*resource.Resource {
	var identities []string
	for _, account := range front.Accounts {
		identities = append(identities, trust.Account(front.Gateway.Namespace, account)...)
	}
	name := wire.ClusterName(port.Number, svc.Host)
	way := Options{Connect: connect, Mutual: Mutual{To: resolve.MutualAlways, SNI: resolve.FrontSNI(svc, port.Number), Identities: identities}}
	tabled := &registry.Service{Host: svc.Host, Source: config.Key{Kind: config.KindService}, Resolution: registry.Static}
	out := Cluster(resource.Cluster, name, tabled, port, way, md)
	return append(out, SealLoad(name, registry.WaypointPort, Together(front.Endpoints)))
}
