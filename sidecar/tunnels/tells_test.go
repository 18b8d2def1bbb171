package tunnels

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/wire"
)

func anyOf(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	out, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// chainOf has filters of these configurations.
func chainOf(t *testing.T, configs ...proto.Message) *listenerv3.FilterChain {
	t.Helper()
	c := &listenerv3.FilterChain{}
	for _, m := range configs {
		c.Filters = append(c.Filters, &listenerv3.Filter{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: anyOf(t, m)}})
	}
	return c
}

func listenerAt(port uint32, nobody *listenerv3.FilterChain, chains ...*listenerv3.FilterChain) *listenerv3.Listener {
	return &listenerv3.Listener{
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "0.0.0.0", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
		}}},
		FilterChains: chains, DefaultFilterChain: nobody,
	}
}

func toCluster(name string) *tcpv3.TcpProxy {
	return &tcpv3.TcpProxy{ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: name}}
}

var (
	tells  = &hcmv3.HttpConnectionManager{AccessLogOptions: &hcmv3.HttpConnectionManager_HcmAccessLogOptions{AccessLogFlushInterval: durationpb.New(time.Second)}}
	untold = &hcmv3.HttpConnectionManager{AccessLogOptions: &hcmv3.HttpConnectionManager_HcmAccessLogOptions{FlushAccessLogOnNewRequest: true}}
)

// TestTellsAt: a port is one at which all that is carried is told of.
func TestTellsAt(t *testing.T) {
	closes, passes := chainOf(t, toCluster(wire.BlackHoleCluster)), chainOf(t, toCluster("elsewhere"))
	begins := toCluster(wire.BlackHoleCluster)
	begins.AccessLogOptions = &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
	udp := listenerAt(443, nil, chainOf(t, tells))
	udp.GetAddress().GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	for name, c := range map[string]struct {
		of   *listenerv3.Listener
		want uint16
	}{
		"requests":                           {listenerAt(443, closes, chainOf(t, tells)), 443},
		"several chains, one of them closed": {listenerAt(65535, nil, chainOf(t, toCluster("a"), tells), closes, chainOf(t, tells)), 65535},
		"a manager that tells nothing":       {listenerAt(443, closes, chainOf(t, untold)), 0},
		"beside one that tells":              {listenerAt(443, closes, chainOf(t, tells), chainOf(t, untold)), 0},
		"TLS that passes, told of":           {listenerAt(443, closes, chainOf(t, tells), chainOf(t, &tcpv3.TcpProxy{}, begins)), 443},
		"TCP alone, told of":                 {listenerAt(443, closes, chainOf(t, begins)), 0},
		"TLS that passes beside it":          {listenerAt(443, closes, chainOf(t, tells), passes), 0},
		"by the last chain":                  {listenerAt(443, passes, chainOf(t, tells)), 0},
		"asked about":                        {listenerAt(443, nil, chainOf(t, tells), chainOf(t, &tcpv3.TcpProxy{}, toCluster(wire.BlackHoleCluster))), 0},
		"TCP alone":                          {listenerAt(443, nil, passes), 0},
		"UDP":                                {udp, 0},
		"nothing":                            {&listenerv3.Listener{}, 0},
	} {
		body, err := proto.Marshal(c.of)
		if err != nil {
			t.Fatal(err)
		}
		if got := tellsAt(body); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		for n := range body { // what is cut off is no message, and nothing to stumble over
			tellsAt(body[:n])
		}
	}
}
