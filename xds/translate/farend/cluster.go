package farend

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// ResolvesRequestName says whether a pattern's cluster connects to the name that a client says, rather than to endpoints or where the
// client goes (see Cluster).
func ResolvesRequestName(svc *registry.Service) bool {
	return svc.Resolution != registry.Static && len(svc.Endpoints) == 0 && !(svc.Resolution == registry.None && svc.Exit.IsZero())
}

// Options is how a far end is spoken to.
type Options struct {
	TLS     *registry.TLSSettings     // what the client's own protocol is wrapped in; nil for nothing
	Given   registry.ServedCredential // what of a Secret that needs
	Connect time.Duration             // how long connecting may take
	Traffic registry.TrafficPolicy
	Mutual  Mutual // TLS of the mesh
	Near    registry.ClientLocation
	// Endpoints is the name of its endpoints, where that is not the cluster's own.
	Endpoints string
	// Sessions is how many clients a cluster for UDP has at a time.
	Sessions uint32
}

// Cluster connects to the host itself, by sidecar or gateway; kind says how it is fetched.
func Cluster(kind resource.Type, clusterName string, svc *registry.Service, port registry.Port, way Options, md *corev3.Metadata) []*resource.Resource {
	var c *clusterv3.Cluster
	var out []*resource.Resource
	switch {
	case svc.Headless():
		c = envoy.OriginalDestination(clusterName, wire.RoleMesh)
		c.Metadata = md
	case svc.Resolution == registry.Static:
		c = envoy.EDSCluster(clusterName, md)
		if !svc.Tabled() {
			if originates(port, way.TLS) {
				c.EdsClusterConfig.ServiceName = wire.WrappedEndpoints(clusterName)
			}
			out = append(out, SealLoadAssignment(c.EdsClusterConfig.ServiceName, port, way.Reaching(svc, port, svc.Endpoints)...))
		}
	case len(svc.Endpoints) > 0:
		c = envoy.StrictDNSCluster(clusterName, md, LoadAssignment(clusterName, port, way.Asked(svc, svc.Endpoints)...))
	case !svc.Wildcard() && (svc.Resolution == registry.DNS || !svc.Exit.IsZero()):
		c = envoy.StrictDNSCluster(clusterName, md, LoadAssignment(clusterName, port, way.Asked(svc, []registry.Endpoint{{Address: svc.Host}})...))
	case svc.Resolution == registry.None && svc.Exit.IsZero():
		c = AtTarget(envoy.OriginalDestination(clusterName, wire.RoleExternal), port)
		c.Metadata = md
	default:
		c = envoy.DynamicForwardProxyCluster(clusterName, md)
	}
	envoy.WithConnectTimeout(c, way.Connect)
	http2 := port.Protocol == registry.HTTP2 || (port.Protocol == registry.HTTP && way.Traffic.OverHTTP2())
	if http2 {
		c.TypedExtensionProtocolOptions = envoy.HTTP2Options()
	}
	if tls := way.TLS; originates(port, tls) {
		c.TransportSocket = originateTLS(svc.Host, svc.SANs, tls, way.Given, http2)
		if svc.Wildcard() && tls.SNI == "" {
			c.TypedExtensionProtocolOptions = envoy.SNIFromRequest(http2)
		}
	}
	way.Mutual.apply(c, port, http2)
	applyTraffic(c, way.Traffic, port)
	if c.LbPolicy != clusterv3.Cluster_CLUSTER_PROVIDED && way.Near.Spread(svc, way.Traffic) != nil {
		byLocality(c)
	}
	if c.EdsClusterConfig != nil && way.Endpoints != "" {
		c.EdsClusterConfig.ServiceName = way.Endpoints
	}
	if port.Protocol == registry.UDP {
		envoy.LimitSessions(c, way.Sessions) // last: the gateway's sockets are everybody's, whatever rule the Service's namespace writes
		if c.EdsClusterConfig != nil {
			c.EdsClusterConfig.ServiceName = wire.DatagramEndpoints(port.Number, svc.Host) // which clusters share
		}
		return append(out, envoy.SealOverUDP(kind, c))
	}
	return append(out, envoy.Seal(kind, clusterName, c))
}

// AtTarget has a cluster that connects to the address which a client wanted do so at the port's target, where an entry says one (targetPort).
func AtTarget(c *clusterv3.Cluster, port registry.Port) *clusterv3.Cluster {
	if !port.Explicit {
		return c
	}
	return envoy.AtPort(c, port.TargetPort)
}

// originates says whether what an app speaks at a port is wrapped in TLS.
func originates(port registry.Port, tls *registry.TLSSettings) bool {
	return tls.Wraps(port) && (tls.Mode == registry.TLSSimple || tls.Mode == registry.TLSMutual)
}

// OpaqueRevision notes it in the metadata of the cluster of a port whose bytes are not looked at.
func OpaqueRevision(md *corev3.Metadata, svc *registry.Service, port registry.Port) *corev3.Metadata {
	if revision := svc.RevisionOf(port); revision != "" && !port.Protocol.IsHTTP() {
		md.FilterMetadata["sallyport"].Fields["revision"] = structpb.NewStringValue(revision)
	}
	return md
}

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
