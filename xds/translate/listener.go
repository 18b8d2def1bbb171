package translate

import (
	"maps"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httpinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	tlsinspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

func listenerFilter(name string, config proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: packed(config)}}
}

// inspectTLS reads the whole ClientHello, of up to 16 KiB (Envoy's default and most): post-quantum ones span
// packets.
func inspectTLS() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{})
}

// inspectHTTP reads the beginning of a request.
func inspectHTTP() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
}

// inspectors find out what is spoken, except on ports where the server speaks first: looking for the client's first
// bytes there would only make it wait; and except on other ports that are given.
func inspectors(except ...uint32) []*listenerv3.ListenerFilter {
	list := []*listenerv3.ListenerFilter{
		inspectTLS(),
		inspectHTTP(),
	}
	for _, f := range list {
		f.FilterDisabled = onPorts(slices.Concat(except, registry.ServerFirstPorts()))
	}
	return list
}

func onPorts(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	set := &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{}
	for _, p := range ports {
		set.Rules = append(set.Rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
			},
		})
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{OrMatch: set}}
}

func originalDst() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
}

// at binds a listener to a port on all addresses.
func at(l *listenerv3.Listener, port uint32, ipv6 bool) *listenerv3.Listener {
	l.Address = tcpAddress("0.0.0.0", port)
	if ipv6 {
		l.AdditionalAddresses = []*listenerv3.AdditionalAddress{{Address: tcpAddress("::", port)}}
	}
	return l
}

// chain is a filter chain; a nil match takes everything.
func chain(name string, match *listenerv3.FilterChainMatch, filters ...*listenerv3.Filter) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{Name: name, FilterChainMatch: match, Filters: filters}
}

func tlsSpoken() *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{TransportProtocol: "tls"}
}

func httpSpoken() *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{TransportProtocol: "raw_buffer", ApplicationProtocols: []string{"http/1.0", "http/1.1", "h2c"}}
}

// within matches connections to a range of addresses.
func within(prefix string, bits int) *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{PrefixRanges: []*corev3.CidrRange{{
		AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(uint32(bits)),
	}}}
}

// proxy is a TCP proxy.
type proxy struct {
	stat    string
	cluster string
	log     accesslog.Place // none: what is behind it logs

	onDemand   bool              // a cluster that is not there is asked for
	policy     string            // the object that decides, where no route says so
	tags       map[string]string // of the log, beside those of the place
	afterHello bool              // it waits for its client's certificate before it goes on
	revision   string            // of what it decides
}

func (p proxy) filter() *listenerv3.Filter {
	t := &tcpv3.TcpProxy{
		StatPrefix:       p.stat,
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: p.cluster},
		IdleTimeout:      durationpb.New(idleTimeout),
	}
	if p.afterHello {
		t.UpstreamConnectMode = tcpv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
		t.MaxEarlyDataBytes = wrapperspb.UInt32(0)
	}
	if p.onDemand {
		t.OnDemand = &tcpv3.TcpProxy_OnDemand{OdcdsConfig: clustersOnDemand()}
	}
	if p.log != "" {
		tags := maps.Clone(p.tags)
		if p.policy != "" {
			tags = map[string]string{accesslog.TagPolicy: p.policy, accesslog.TagRevision: p.revision}
		}
		t.AccessLog = accessLogOf(p.log, false, tags)
	}
	return networkFilter("envoy.filters.network.tcp_proxy", t)
}

// setState sets values of the filter state for a connection.
func setState(values ...*statev3.FilterStateValue) *listenerv3.Filter {
	return networkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{OnNewConnection: values})
}

// detectWithin bounds the wait for a client's first bytes; after it the connection is taken as plain TCP.
func detectWithin(l *listenerv3.Listener, d time.Duration) *listenerv3.Listener {
	l.ListenerFiltersTimeout = durationpb.New(d)
	l.ContinueOnListenerFiltersTimeout = true
	return l
}

// internalListener takes connections from within the same Envoy.
func internalListener(name string, filters []*listenerv3.ListenerFilter, chains ...*listenerv3.FilterChain) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:              name,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		ListenerFilters:   slices.Clone(filters),
		FilterChains:      chains,
		TrafficDirection:  corev3.TrafficDirection_OUTBOUND,
	}
}
