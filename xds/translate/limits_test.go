package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/xds/resource"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
)

// What a connection, and a stream, may be allowed to hold at most, in bytes.
const (
	mostConnection = 64 << 10
	mostStream     = 512 << 10
)

// TestEverythingIsBounded: no listener, cluster or connection manager of any golden is left with Envoy's own limits.
func TestEverythingIsBounded(t *testing.T) {
	for name, c := range cases(t) {
		t.Run(name, func(t *testing.T) {
			v := c.view()
			each(t, v, resource.Listener, func(l *listenerv3.Listener) { boundedListener(t, l) })
			for _, kind := range []resource.Type{resource.Cluster, resource.OnDemandCluster} {
				each(t, v, kind, func(c *clusterv3.Cluster) { boundedCluster(t, c) })
			}
		})
	}
}

func boundedListener(t *testing.T, l *listenerv3.Listener) {
	t.Helper()
	if n := l.PerConnectionBufferLimitBytes.GetValue(); n == 0 || n > mostConnection {
		t.Errorf("listener %s: a connection may hold %d bytes", l.Name, n)
	}
	if l.Address != nil && l.UdpListenerConfig == nil && (l.BindToPort == nil || l.BindToPort.Value) && !resetsStuck(l.SocketOptions) {
		t.Errorf("listener %s: who takes nothing is never cut off", l.Name)
	}
	if l.PerConnectionBufferHighWatermarkTimeout != nil {
		t.Errorf("listener %s: Envoy ends what is stuck cleanly", l.Name)
	}
	for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
		shakesHands := chain.GetTransportSocketConnectTimeout()
		if l.UdpListenerConfig != nil { // QUIC's are not a chain's
			shakesHands = l.UdpListenerConfig.GetQuicOptions().GetCryptoHandshakeTimeout()
		}
		if chain.GetTransportSocket() != nil && shakesHands.AsDuration() == 0 {
			t.Errorf("listener %s, chain %s: a handshake may take for ever", l.Name, chain.Name)
		}
		for _, f := range chain.GetFilters() {
			hcm := &hcmv3.HttpConnectionManager{}
			if f.GetTypedConfig().UnmarshalTo(hcm) != nil {
				continue
			}
			boundedHTTP2(t, "listener "+l.Name, hcm.Http2ProtocolOptions)
			if hcm.RequestHeadersTimeout.AsDuration() == 0 || hcm.GetCommonHttpProtocolOptions().GetIdleTimeout().AsDuration() == 0 {
				t.Errorf("listener %s: clients may be silent for ever", l.Name)
			}
			if l.Address != nil && (hcm.DelayedCloseTimeout == nil || hcm.DelayedCloseTimeout.AsDuration() > 0) {
				t.Errorf("listener %s, chain %s: who reads slowly is cut off, and upgrades end late", l.Name, chain.Name)
			}
		}
	}
}

// resetsStuck looks for TCP_USER_TIMEOUT.
func resetsStuck(options []*corev3.SocketOption) bool {
	return slices.ContainsFunc(options, func(o *corev3.SocketOption) bool { return o.Level == 6 && o.Name == 18 && o.GetIntValue() > 0 })
}

func boundedCluster(t *testing.T, c *clusterv3.Cluster) {
	t.Helper()
	if n := c.PerConnectionBufferLimitBytes.GetValue(); n == 0 || n > mostConnection {
		t.Errorf("cluster %s: a connection may hold %d bytes", c.Name, n)
	}
	if strings.Contains(c.Name, "|udp.") {
		if n := c.GetCircuitBreakers().GetThresholds()[0].MaxConnections.GetValue(); n > 1<<14 || len(c.GetUpstreamBindConfig().GetSocketOptions()) > 0 {
			t.Errorf("cluster %s: %d clients at a time; options of its sockets: %v", c.Name, n, c.UpstreamBindConfig)
		}
	} else if c.GetTransportSocket().GetName() != "envoy.transport_sockets.internal_upstream" && !resetsStuck(c.GetUpstreamBindConfig().GetSocketOptions()) {
		t.Errorf("cluster %s: who takes nothing is never cut off", c.Name)
	}
	if c.PerConnectionBufferHighWatermarkTimeout != nil {
		t.Errorf("cluster %s: Envoy ends what is stuck cleanly", c.Name)
	}
	options := &httpv3.HttpProtocolOptions{}
	packed := c.TypedExtensionProtocolOptions["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
	if packed == nil {
		return // no HTTP/2
	}
	if err := packed.UnmarshalTo(options); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*corev3.Http2ProtocolOptions{
		options.GetExplicitHttpConfig().GetHttp2ProtocolOptions(), options.GetUseDownstreamProtocolConfig().GetHttp2ProtocolOptions(),
	} {
		if o != nil {
			boundedHTTP2(t, "cluster "+c.Name, o)
		}
	}
}

func boundedHTTP2(t *testing.T, where string, o *corev3.Http2ProtocolOptions) {
	t.Helper()
	if n := o.GetInitialStreamWindowSize().GetValue(); n == 0 || n > mostStream {
		t.Errorf("%s: an HTTP/2 stream may hold %d bytes", where, n)
	}
	if o.GetInitialConnectionWindowSize().GetValue() == 0 || o.GetMaxConcurrentStreams().GetValue() == 0 {
		t.Errorf("%s: HTTP/2 with Envoy's own limits: %v", where, o)
	}
}
