package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	listenerstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	netratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ratelimit/v3"
	selectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/local_address_selectors/filter_state_override/v3"
	mapperv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/filter_state_override/v3"
	ondemandsecretv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/wire"
)

// What the proxy of a node does for pods: one Envoy, whose connections are of one pod each. Whose a connection is, its listener says
// (MarkOutbound), and from there on it comes along as filter state that counts for connection pools: no two pods share a connection.

// MarkOutbound says it, of what a pod sends. It is a filter of the listener and not of its chains, of which there are many.
func MarkOutbound() *listenerv3.ListenerFilter {
	return atFirst(
		ofPod(wire.StateIdentity, ambient.Identity),
		ofPod(wire.StateNetwork, ambient.Network),
		ofPod(wire.StatePod, ambient.Name),
		State(wire.StateClient, podValue(ambient.Identity), NotShared), // whom policies are about
		State(wire.StateFrom, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", NotShared),
		State(wire.StateSilent, silentYes, NotShared), // until MarkHeard
	)
}

// MarkInbound says it, of what comes to a pod: who comes is somebody else.
func MarkInbound() *listenerv3.ListenerFilter {
	return atFirst(ofPod(wire.StateNetwork, ambient.Network), ofPod(wire.StatePod, ambient.Name))
}

// ofPod is a value from the metadata of a pod's listener.
func ofPod(key, what string) *statev3.FilterStateValue {
	return State(key, podValue(what), SharedTransitive)
}

func podValue(what string) string {
	return "%METADATA(LISTENER:" + ambient.MetadataKey + ":" + what + ")%"
}

// atFirst sets values as soon as a connection is there, for whatever filter chain takes it.
func atFirst(values ...*statev3.FilterStateValue) *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.set_filter_state", &listenerstatev3.Config{OnAccept: values})
}

// DescribeClient has a question say whose the connection is, as a gateway's do.
func DescribeClient(q *netratelimitv3.RateLimit) {
	g := q.RateLimitService.GrpcService
	g.InitialMetadata = append(g.InitialMetadata,
		&corev3.HeaderValue{Key: HeaderPeer, Value: "%FILTER_STATE(" + wire.StateIdentity + ":PLAIN)%"},
		&corev3.HeaderValue{Key: HeaderFrom, Value: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"})
}

// TagsOfPod are what a node's proxy says of each connection, beside what a sidecar does.
var TagsOfPod = map[string]string{
	wire.TagPod:  "%FILTER_STATE(" + wire.StatePod + ":PLAIN)%",
	wire.TagPeer: "%FILTER_STATE(" + wire.StateIdentity + ":PLAIN)%",
}

// OriginalSrc has what is connected to by a listener's connections see their clients' addresses. The mark is one that the rules of any release know; an agent whose
// rules know more says its own (sidecar/node).
func OriginalSrc() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: wire.ProxyMark})
}

// ConnectFromPod makes a cluster connect from the network of the pod that a connection is of, with a mark by which the pod's rules let it
// pass; and show that pod's certificate where it showed the proxy's own. Where the node's kernel has IPv6, it connects by that, too.
func ConnectFromPod(c *clusterv3.Cluster, ipv6 bool) *clusterv3.Cluster {
	if c.GetTransportSocket().GetName() == internalSocket {
		return c
	}
	if c.UpstreamBindConfig == nil {
		c.UpstreamBindConfig = &corev3.BindConfig{}
	}
	bind := c.UpstreamBindConfig
	bind.SourceAddress = TCPAddress("0.0.0.0", 0).GetSocketAddress()
	if ipv6 {
		bind.ExtraSourceAddresses = []*corev3.ExtraSourceAddress{{Address: TCPAddress("::", 0).GetSocketAddress()}}
	}
	bind.LocalAddressSelector = &corev3.TypedExtensionConfig{
		Name: "envoy.upstream.local_address_selector.filter_state_override", TypedConfig: ToAny(&selectorv3.Config{}),
	}
	if c.Name != wire.InboundPassthrough && c.Name != wire.SilentAgain { // OriginalSrc marks the former, and a cluster's own mark would count more; the latter is to come back
		bind.SocketOptions = append(bind.SocketOptions, &corev3.SocketOption{
			Description: "SO_MARK", Level: solSocket, Name: soMark, State: corev3.SocketOption_STATE_PREBIND,
			Value: &corev3.SocketOption_IntValue{IntValue: wire.ProxyMark},
		})
	}
	c.TransportSocket = asPod(c.TransportSocket)
	for _, m := range c.TransportSocketMatches {
		m.TransportSocket = asPod(m.TransportSocket)
	}
	return c
}

// Linux's numbers, from asm-generic/socket.h.
const (
	solSocket = 1
	soRcvBuf  = 8
	soMark    = 36

	soBindToDevice = 25
)

// asPod replaces the proxy's own certificate by that of the pod that a connection is of. There is no certificate of nobody's: where
// nothing says whose a connection is, it waits for one that does not come, until connecting takes too long.
func asPod(s *corev3.TransportSocket) *corev3.TransportSocket {
	var ctx tlsv3.UpstreamTlsContext
	if s.GetTypedConfig().UnmarshalTo(&ctx) != nil {
		return s
	}
	common := ctx.CommonTlsContext
	if list := common.GetTlsCertificateSdsSecretConfigs(); len(list) != 1 || list[0].Name != wire.SecretIdentity {
		return s
	}
	source := common.TlsCertificateSdsSecretConfigs[0].SdsConfig
	common.TlsCertificateSdsSecretConfigs = nil
	common.CustomTlsCertificateSelector = &corev3.TypedExtensionConfig{
		Name: "envoy.tls.certificate_selectors.on_demand_secret",
		TypedConfig: ToAny(&ondemandsecretv3.Config{
			ConfigSource: source,
			CertificateMapper: &corev3.TypedExtensionConfig{
				Name: "envoy.tls.upstream_certificate_mappers.filter_state_override", TypedConfig: ToAny(&mapperv3.Config{DefaultValue: nobodysSecret}),
			},
		}),
	}
	ctx.MaxSessionKeys = wrapperspb.UInt32(0) // a session that is resumed has the certificate of the pod that it was begun for
	return TLSSocket(&ctx)
}

// nobodysSecret is a name that the agent gives no certificate for.
const nobodysSecret = "nobody"
