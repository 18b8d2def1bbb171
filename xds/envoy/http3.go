package envoy

import (
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/wire"
)

const (
	// quicRest is how long a client's connection by QUIC is kept on which nothing comes. It says so in time; a client that is gone says nothing.
	quicRest = time.Minute
	// http3Advertised is how long, in seconds, clients may remember that HTTP/3 is spoken; Istio's. They come by TCP where it is not any more.
	http3Advertised = 86400
	// quicReceive is how much, in bytes, the kernel keeps of what comes while Envoy does something else; as far as the node lets anybody (net.core.rmem_max). Its usual
	// 208 KiB are some 90 datagrams: uploads stand still where a worker is not run for a moment (docs/adr/0138-http3-at-ingress-gateways.md).
	quicReceive = 4 << 20
	// quicConnections is how many connections a chain takes by QUIC at a time: Envoy's limit of all that come (sidecar/bootstrap) does not count those.
	quicConnections = 4096
	// quicTransport is what chains are matched by that take QUIC.
	quicTransport = "quic"
)

// HTTP3Listener takes connections by QUIC at a port, beside its listener for TCP.
func HTTP3Listener(port uint32, ipv6 bool, chains ...*listenerv3.FilterChain) *listenerv3.Listener {
	l := BindAll(&listenerv3.Listener{Name: wire.DatagramListener(port), TrafficDirection: corev3.TrafficDirection_OUTBOUND, FilterChains: chains}, port, ipv6)
	overUDP(l.Address)
	for _, more := range l.AdditionalAddresses {
		overUDP(more.Address)
	}
	l.SocketOptions = []*corev3.SocketOption{receiveBuffer(quicReceive)}
	l.UdpListenerConfig = &listenerv3.UdpListenerConfig{DownstreamSocketConfig: &corev3.UdpSocketConfig{PreferGro: wrapperspb.Bool(true)}, QuicOptions: &listenerv3.QuicProtocolOptions{
		QuicProtocolOptions: &corev3.QuicProtocolOptions{
			MaxConcurrentStreams:        wrapperspb.UInt32(streamsOutside),
			InitialStreamWindowSize:     wrapperspb.UInt32(streamWindow),
			InitialConnectionWindowSize: wrapperspb.UInt32(connectionWindow),
		},
		IdleTimeout:            durationpb.New(quicRest),
		CryptoHandshakeTimeout: durationpb.New(patience),
		// who a client is was settled when its connection began: Envoy goes on by its first address, in policies and in what apps are told, wherever it is by then
		SendDisableActiveMigration: wrapperspb.Bool(true),
	}}
	return l
}

// receiveBuffer is SO_RCVBUF of socket(7), in bytes.
func receiveBuffer(size int64) *corev3.SocketOption {
	return &corev3.SocketOption{
		Description: "SO_RCVBUF", Level: solSocket, Name: soRcvBuf,
		Value: &corev3.SocketOption_IntValue{IntValue: size}, State: corev3.SocketOption_STATE_PREBIND,
	}
}

// HTTP3Chain takes what comes for names by QUIC, as the port's chain of the same name does by TCP; none: for all names.
func HTTP3Chain(name, table string, names []string, t ServerTLS, m mesh.Ingress) *listenerv3.FilterChain {
	hcm := ingressManager(table, m)
	hcm.CodecType = hcmv3.HttpConnectionManager_HTTP3
	hcm.Http3ProtocolOptions = &corev3.Http3ProtocolOptions{}
	c := FilterChain(name, &listenerv3.FilterChainMatch{TransportProtocol: quicTransport, ServerNames: names},
		NetworkFilter("envoy.filters.network.connection_limit", &limitv3.ConnectionLimit{StatPrefix: "http3", MaxConnections: wrapperspb.UInt64(quicConnections)}),
		NetworkFilter("envoy.filters.network.http_connection_manager", hcm))
	t.ALPN = []string{"h3"}
	c.TransportSocket = &corev3.TransportSocket{Name: "envoy.transport_sockets.quic", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: ToAny(&quicv3.QuicDownstreamTransport{
		DownstreamTlsContext: t.context(),
		EnableEarlyData:      wrapperspb.Bool(false), // anybody could send it again
	})}}
	return c
}

// AdvertiseHTTP3 has a table's answers say that its names are asked for by HTTP/3, too, at a port (RFC 7838). What an app, or a route, says of it counts.
func AdvertiseHTTP3(table *routev3.RouteConfiguration, port uint32) {
	table.ResponseHeadersToAdd = append(table.ResponseHeadersToAdd, &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: "alt-svc", Value: fmt.Sprintf(`h3=":%d"; ma=%d`, port, http3Advertised)},
		AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
	})
}
