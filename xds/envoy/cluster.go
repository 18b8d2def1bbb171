package envoy

import (
	"net/netip"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	dfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	internalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/internal_upstream/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/wire"
)

// Times of the data plane.
const (
	connectTimeout = 10 * time.Second // Istio's default
	flushInterval  = 200 * time.Millisecond
	idleTimeout    = time.Hour // of a tunnel on which nothing moves; Envoy's default for TCP
)

// WithConnectTimeout bounds how long a cluster's connections may take to be made; 0 leaves the default.
func WithConnectTimeout(c *clusterv3.Cluster, within time.Duration) *clusterv3.Cluster {
	if within > 0 {
		c.ConnectTimeout = durationpb.New(within)
	}
	return c
}

// unlimited lifts Envoy's circuit breakers, as Istio does: the limits of a mesh are its own.
func unlimited() *clusterv3.CircuitBreakers {
	most := wrapperspb.UInt32(1<<32 - 1)
	return &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
		MaxConnections: most, MaxPendingRequests: most, MaxRequests: most, MaxRetries: most, TrackRemaining: true,
	}}}
}

// Metadata says what a cluster is for and which object stands behind it, in the form that Istio's tools read
// and access logs quote.
func Metadata(role string, config string) *corev3.Metadata {
	m := map[string]*structpb.Struct{"sallyport": fields("role", role)}
	if config != "" {
		m["istio"] = fields("config", config)
	}
	return &corev3.Metadata{FilterMetadata: m}
}

func fields(k, v string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{k: structpb.NewStringValue(v)}}
}

// ObjectRef is how an object is quoted in metadata: "ServiceEntry/NS/NAME".
func ObjectRef(k config.Key) string {
	return wire.InDecided(string(k.Kind) + "/" + k.Namespace + "/" + k.Name)
}

// HTTP2Options speak HTTP/2 to a server outside.
func HTTP2Options() map[string]*anypb.Any { return HTTPOptions(overHTTP2(outsideHTTP2())) }

// MeshProtocol is the leg to a gateway: HTTP/2, and HTTP/1.1 where the filter state offers nothing else (alone). A pool
// counts what is offered, so the two never share a connection. Who rests is let go before the gateway does it.
func MeshProtocol() map[string]*anypb.Any {
	return HTTPOptions(&httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(sidecarRestTime)},
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_AutoConfig{AutoConfig: &httpv3.HttpProtocolOptions_AutoHttpConfig{
			HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
			Http2ProtocolOptions: http2Limits(),
		}},
	})
}

func overHTTP2(limits *corev3.Http2ProtocolOptions) *httpv3.HttpProtocolOptions {
	return &httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: limits},
		},
	}}
}

// DownstreamProtocol speaks upstream what the client speaks.
func DownstreamProtocol() map[string]*anypb.Any {
	return HTTPOptions(&httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
		UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
			HttpProtocolOptions:  &corev3.Http1ProtocolOptions{},
			Http2ProtocolOptions: outsideHTTP2(),
		},
	}})
}

// SNIFromRequest takes SNI, and the name that the server must show, from the request: for wildcards.
func SNIFromRequest(http2 bool) map[string]*anypb.Any {
	options := &httpv3.HttpProtocolOptions{
		UpstreamHttpProtocolOptions: &corev3.UpstreamHttpProtocolOptions{AutoSni: true, AutoSanValidation: true},
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
		}},
	}
	if http2 {
		options.GetExplicitHttpConfig().ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: outsideHTTP2()}
	}
	return HTTPOptions(options)
}

// HTTPOptions are how a cluster speaks HTTP.
func HTTPOptions(o proto.Message) map[string]*anypb.Any {
	return map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": ToAny(o)}
}

// dnsCache is the one cache of resolved names in a proxy. Names are looked up when they are first asked for, by
// the resolver that the bootstrap names (the agent's), and again after their TTL, which that resolver bounds; what nobody has asked for
// since a minute is forgotten then. Who takes all of the room has others' new names refused for as long as that. Its name changes with
// what is set here: a cache stays for as long as its Envoy does, which refuses others of that name.
func dnsCache() *dfpv3.DnsCacheConfig {
	return &dfpv3.DnsCacheConfig{
		Name:              "egress-60s",
		DnsLookupFamily:   clusterv3.Cluster_V4_PREFERRED,
		DnsMinRefreshRate: durationpb.New(time.Second),
		HostTtl:           durationpb.New(time.Minute),
		MaxHosts:          wrapperspb.UInt32(20000),
		DnsFailureRefreshRate: &clusterv3.Cluster_RefreshRate{
			BaseInterval: durationpb.New(time.Second), MaxInterval: durationpb.New(10 * time.Second),
		},
		DnsQueryTimeout: durationpb.New(5 * time.Second),
	}
}

// DynamicForwardProxyCluster is a cluster that resolves the name of each request or connection when it comes: for wildcards.
func DynamicForwardProxyCluster(name string, md *corev3.Metadata) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:            name,
		ConnectTimeout:  durationpb.New(connectTimeout),
		CircuitBreakers: unlimited(),
		Metadata:        md,
		LbPolicy:        clusterv3.Cluster_CLUSTER_PROVIDED,
		ClusterDiscoveryType: &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
			Name: "envoy.clusters.dynamic_forward_proxy",
			TypedConfig: ToAny(&dfpclusterv3.ClusterConfig{
				ClusterImplementationSpecifier: &dfpclusterv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: dnsCache()},
				// names are checked by this package's validation contexts, not by cluster defaults
				AllowInsecureClusterOptions: true,
			}),
		}},
	}
}

// usualBalance is how an endpoint is chosen where nobody says: of two that are drawn, the one that has less to do. As in Istio.
const usualBalance = clusterv3.Cluster_LEAST_REQUEST

// EDSCluster is a cluster whose endpoints are a resource of their own.
func EDSCluster(name string, md *corev3.Metadata) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(connectTimeout),
		CircuitBreakers:      unlimited(),
		Metadata:             md,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		LbPolicy:             usualBalance,
		EdsClusterConfig: &clusterv3.Cluster_EdsClusterConfig{
			EdsConfig: &corev3.ConfigSource{
				ResourceApiVersion:    corev3.ApiVersion_V3,
				ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			},
			ServiceName: name,
		},
	}
}

// StrictDNSCluster is a cluster of endpoints that are names themselves, looked up again after their TTL; connections to
// addresses that went are drained.
func StrictDNSCluster(name string, md *corev3.Metadata, load *endpointv3.ClusterLoadAssignment) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 name,
		ConnectTimeout:       durationpb.New(connectTimeout),
		CircuitBreakers:      unlimited(),
		Metadata:             md,
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS},
		LbPolicy:             usualBalance,
		DnsLookupFamily:      clusterv3.Cluster_V4_PREFERRED,
		RespectDnsTtl:        true,
		DnsFailureRefreshRate: &clusterv3.Cluster_RefreshRate{
			BaseInterval: durationpb.New(time.Second), MaxInterval: durationpb.New(10 * time.Second),
		},
		LoadAssignment: load,
	}
}

// OriginalDestination is a cluster that connects to where the client wanted.
func OriginalDestination(name, role string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                          name,
		ConnectTimeout:                durationpb.New(connectTimeout),
		CircuitBreakers:               unlimited(),
		Metadata:                      Metadata(role, ""),
		ClusterDiscoveryType:          &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST},
		LbPolicy:                      clusterv3.Cluster_CLUSTER_PROVIDED,
		TypedExtensionProtocolOptions: DownstreamProtocol(),
	}
}

// AtPort has an OriginalDestination connect to a port, whatever port the client wanted.
func AtPort(c *clusterv3.Cluster, port uint32) *clusterv3.Cluster {
	c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: wrapperspb.UInt32(port)}}
	return c
}

// ConnectFrom has a cluster connect from an address: the one of the family that is connected to.
func ConnectFrom(c *clusterv3.Cluster, from, orFrom string) *clusterv3.Cluster {
	c.UpstreamBindConfig = &corev3.BindConfig{
		SourceAddress:        TCPAddress(from, 0).GetSocketAddress(),
		ExtraSourceAddresses: []*corev3.ExtraSourceAddress{{Address: TCPAddress(orFrom, 0).GetSocketAddress()}},
	}
	return c
}

// FromLoopback binds what a cluster connects from an address of loopback's, by IPv4, to that interface: the kernel lets it leave by no other (SO_BINDTODEVICE, to which a process needs no right
// since Linux 5.7). By IPv6 it lets it.
func FromLoopback(c *clusterv3.Cluster) *clusterv3.Cluster {
	c.UpstreamBindConfig.SocketOptions = []*corev3.SocketOption{{
		Description: "SO_BINDTODEVICE", Level: solSocket, Name: soBindToDevice, State: corev3.SocketOption_STATE_PREBIND,
		Value: &corev3.SocketOption_BufValue{BufValue: []byte("lo\x00")},
	}}
	for _, other := range c.UpstreamBindConfig.ExtraSourceAddresses {
		other.SocketOptions = &corev3.SocketOptionsOverride{}
	}
	return c
}

// AddressCluster is a cluster that connects to one address.
func AddressCluster(name, role string, at netip.AddrPort) *clusterv3.Cluster {
	c := OriginalDestination(name, role)
	c.ClusterDiscoveryType, c.LbPolicy = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, clusterv3.Cluster_ROUND_ROBIN
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: name,
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{
			LBEndpoint(TCPAddress(at.Addr().String(), uint32(at.Port())), 0),
		}}},
	}
	return c
}

// BlackHole is the cluster for what is closed.
func BlackHole() *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 wire.BlackHoleCluster,
		ConnectTimeout:       durationpb.New(connectTimeout),
		Metadata:             Metadata(wire.RoleBlackhole, ""),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
	}
}

const internalSocket = "envoy.transport_sockets.internal_upstream"

// InternalCluster is a cluster whose one endpoint is an internal listener of the same Envoy. What is shared of the
// filter state goes along.
func InternalCluster(listener string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name:                 listener,
		ConnectTimeout:       durationpb.New(connectTimeout),
		CircuitBreakers:      unlimited(),
		Metadata:             Metadata(wire.RoleInner, ""),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{
			ClusterName: listener,
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{LBEndpoint(&corev3.Address{
				Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
					AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: listener},
				}},
			}, 0)}}},
		},
		TransportSocket: &corev3.TransportSocket{
			Name: internalSocket,
			ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: ToAny(&internalv3.InternalUpstreamTransport{
				TransportSocket: &corev3.TransportSocket{
					Name:       "envoy.transport_sockets.raw_buffer",
					ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: ToAny(&rawv3.RawBuffer{})},
				},
			})},
		},
	}
}

// The metadata of endpoints by which a cluster's transport sockets are chosen; Istio's.
const (
	socketMatch = "envoy.transport_socket_match"
	tlsMode     = "tlsMode"
	tlsIstio    = "istio"
)

// TLSWhereMarked uses a transport socket for the endpoints of a cluster that are marked as MarkTLSEndpoint, and none for others.
func TLSWhereMarked(c *clusterv3.Cluster, socket *corev3.TransportSocket) {
	c.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{{Name: tlsMode + "-" + tlsIstio, Match: fields(tlsMode, tlsIstio), TransportSocket: socket}}
}

// MarkTLSEndpoint marks an endpoint.
func MarkTLSEndpoint(e *endpointv3.LbEndpoint) *endpointv3.LbEndpoint {
	e.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{socketMatch: fields(tlsMode, tlsIstio)}}
	return e
}

// LBEndpoint is an endpoint; weight 0 leaves it out.
func LBEndpoint(a *corev3.Address, weight uint32) *endpointv3.LbEndpoint {
	e := &endpointv3.LbEndpoint{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a}}}
	if weight > 0 {
		e.LoadBalancingWeight = wrapperspb.UInt32(weight)
	}
	return e
}

// TCPAddress is an address, or a name, with a port.
func TCPAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
