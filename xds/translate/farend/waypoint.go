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

// ToWaypoint is the cluster of a port that a waypoint stands before, with its endpoints: the name is that of the way past it, but that of its endpoints is another, and everything goes to the
// waypoint's pods, by mutual TLS whose name says which port of which Service it is for. A connection is one of an app's, or carries its requests, so that every
// byte of it arrives.
func ToWaypoint(front *resolve.WaypointHop, svc *registry.Service, port registry.Port, trust envoy.TrustDomains, connect time.Duration, md *corev3.Metadata) []*resource.Resource {
	var identities []string
	for _, account := range front.Accounts {
		identities = append(identities, trust.Account(front.Gateway.Namespace, account)...)
	}
	name := wire.ClusterName(port.Number, svc.Host)
	way := Options{Connect: connect, Endpoints: wire.WaypointEndpoints(name, front.Gateway.Host()), Mutual: Mutual{To: resolve.MutualAlways, SNI: resolve.FrontSNI(svc, port.Number), Identities: identities}}
	tabled := &registry.Service{Host: svc.Host, Source: config.Key{Kind: config.KindService}, Resolution: registry.Static, Traits: &registry.Traits{}}
	out := Cluster(resource.Cluster, name, tabled, port, way, md)
	return append(out, SealLoadAssignment(way.Endpoints, registry.WaypointPort, SingleGroup(front.Endpoints)))
}

// ToPodsWaypoint is the cluster of a waypoint for what is sent to pods' own addresses, with its endpoints. Whoever sends it says which by the TLS name.
func ToPodsWaypoint(front resolve.WaypointHop, trust envoy.TrustDomains, connect time.Duration) []*resource.Resource {
	var identities []string
	for _, account := range front.Accounts {
		identities = append(identities, trust.Account(front.Gateway.Namespace, account)...)
	}
	name := wire.PodsWaypoint(front.Gateway.Host())
	c := envoy.WithConnectTimeout(envoy.EDSCluster(name, envoy.Metadata(wire.RoleMesh, "")), connect)
	c.TypedExtensionProtocolOptions = envoy.DownstreamProtocol() // what is offered says whose it is, and not what is spoken
	c.TransportSocket = envoy.PeerTLS(wire.PodsSNI, identities, nil, wire.ALPNPod)
	return []*resource.Resource{envoy.SealCluster(c), SealLoadAssignment(name, registry.WaypointPort, SingleGroup(front.Endpoints))}
}

// ToPods is the cluster of pods' own addresses, at a waypoint: whatever a connection was asked about, in these namespaces.
func ToPods(namespaces []string, trust envoy.TrustDomains, connect time.Duration) *resource.Resource {
	var prefixes []string
	for _, ns := range namespaces {
		prefixes = append(prefixes, trust.Namespace(ns)...)
	}
	c := envoy.WithConnectTimeout(envoy.OriginalDestination(wire.InboundPods, wire.RoleMesh), connect)
	c.TransportSocket = envoy.PeerTLS(wire.PodsSNI, nil, prefixes, wire.ALPNMeshTCP, wire.ALPNMesh)
	return envoy.SealCluster(c)
}
