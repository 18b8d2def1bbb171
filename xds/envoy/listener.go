package envoy

import (
	"fmt"
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

	"github.com/sallyport/sallyport/xds/wire"
)

func listenerFilter(name string, config proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: ToAny(config)}}
}

// InspectTLS reads the whole ClientHello, of up to 16 KiB (Envoy's default and most): post-quantum ones span
// packets.
func InspectTLS() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{})
}

// InspectHTTP reads the beginning of a request.
func InspectHTTP() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.http_inspector", &httpinspectorv3.HttpInspector{})
}

const (
	inspectedFirst = 8 << 10 // bytes: what Envoy's http inspector looks at to begin with
	inspectedMost  = 64 << 10
)

// InspectSpoken finds out whether a client begins with TLS or a request, whose first line may be long.
//
// An http inspector doubles what it looks at whenever that is full without a line's end, and the socket is looked at again only if this is more than the filter before it
// looked at: both begin alike here, or a long line waits in the socket without anybody. It also takes a doubling that brings nothing new for the client's end, and says that
// it is no request; the next one reads from the beginning, so there is one for each doubling (source/extensions/filters/listener/http_inspector; docs/adr/0202-first-lines-that-are-long.md).
func InspectSpoken() []*listenerv3.ListenerFilter {
	list := []*listenerv3.ListenerFilter{
		listenerFilter("envoy.filters.listener.tls_inspector", &tlsinspectorv3.TlsInspector{InitialReadBufferSize: wrapperspb.UInt32(inspectedFirst)}),
	}
	for size := inspectedFirst; size < inspectedMost; size *= 2 {
		list = append(list, InspectHTTP())
	}
	return append(list, InspectHTTP())
}

// MatchPorts is true of connections to one of some ports: for listener filters.
func MatchPorts(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	set := &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{}
	for _, p := range ports {
		set.Rules = append(set.Rules, &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
			},
		})
	}
	if len(ports) == 1 { // a set has two at least
		return set.Rules[0]
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{OrMatch: set}}
}

// MatchNotPorts is true of all others.
func MatchNotPorts(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	return &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: MatchPorts(ports)}}
}

// OriginalDst finds where a redirected connection wanted to go.
func OriginalDst() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
}

// BindAll binds a listener to a port on all addresses.
func BindAll(l *listenerv3.Listener, port uint32, ipv6 bool) *listenerv3.Listener {
	l.Address = TCPAddress("0.0.0.0", port)
	if ipv6 {
		l.AdditionalAddresses = []*listenerv3.AdditionalAddress{{Address: TCPAddress("::", port)}}
	}
	return l
}

// FilterChain is a filter chain; a nil match takes everything.
func FilterChain(name string, match *listenerv3.FilterChainMatch, filters ...*listenerv3.Filter) *listenerv3.FilterChain {
	return &listenerv3.FilterChain{Name: name, FilterChainMatch: match, Filters: filters}
}

// MatchTLS matches connections that begin with a ClientHello.
func MatchTLS() *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{TransportProtocol: "tls"}
}

// MatchHTTP matches connections that begin with a request.
func MatchHTTP() *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{TransportProtocol: "raw_buffer", ApplicationProtocols: []string{"http/1.0", "http/1.1", "h2c"}}
}

// MatchRange matches connections to a range of addresses.
func MatchRange(prefix string, bits int) *listenerv3.FilterChainMatch {
	return &listenerv3.FilterChainMatch{PrefixRanges: []*corev3.CidrRange{{
		AddressPrefix: prefix, PrefixLen: wrapperspb.UInt32(uint32(bits)),
	}}}
}

// TCPProxy is a TCP proxy.
type TCPProxy struct {
	Stat    string
	Cluster string
	Log     wire.Place // none: what is behind it logs
	Denied  bool       // of that, what policies deny is logged alone
	Mesh    bool       // of that, what goes to pods is logged where they do it, too
	Begins  bool       // it is logged when the connection has got where it goes, too
	Leaving bool       // of that, what leaves is logged alone (MarkOutside)
	Behind  bool       // of that, all is, though what is behind logs how it ends
	Waits   bool       // what waits longer for its client's first bytes is logged there (WaitWhereClientsSpeakFirst)

	OnDemand   bool              // a cluster that is not there is asked for
	Policy     string            // the object that decides, where no route says so
	Tags       map[string]string // of the log, beside those of the place
	AfterHello bool              // it waits for its client's certificate before it goes on
	Revision   string            // of what it decides
}

// Filter makes the network filter.
func (p TCPProxy) Filter() *listenerv3.Filter {
	t := &tcpv3.TcpProxy{
		StatPrefix:       p.Stat,
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: p.Cluster},
		IdleTimeout:      durationpb.New(idleTimeout),
	}
	if p.AfterHello {
		t.UpstreamConnectMode = tcpv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
		t.MaxEarlyDataBytes = wrapperspb.UInt32(0)
	}
	if p.OnDemand {
		t.OnDemand = &tcpv3.TcpProxy_OnDemand{OdcdsConfig: clustersOnDemand()}
	}
	if p.Log != "" {
		tags := maps.Clone(p.Tags)
		if p.Policy != "" {
			tags = map[string]string{wire.TagPolicy: p.Policy, wire.TagRevision: p.Revision}
		}
		t.AccessLog = accessLogOf(p.Log, false, tags, p.Mesh)
	}
	if p.Waits {
		t.AccessLog = unlessItWaits(t.AccessLog)
	}
	if p.Leaving {
		t.AccessLog = leavingBegins(t.AccessLog)
	}
	if p.Behind {
		t.AccessLog = begunToo(t.AccessLog)
	}
	if p.Begins {
		t.AccessLogOptions = &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
	}
	if p.Denied {
		t.AccessLog = deniedAlone(t.AccessLog, false)
	}
	return NetworkFilter("envoy.filters.network.tcp_proxy", t)
}

// SetFilterState sets values of the filter state for a connection.
func SetFilterState(values ...*statev3.FilterStateValue) *listenerv3.Filter {
	return NetworkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{OnNewConnection: values})
}

// WithDetectionTimeout bounds the wait for a client's first bytes; after it the connection is taken as plain TCP.
func WithDetectionTimeout(l *listenerv3.Listener, d time.Duration) *listenerv3.Listener {
	l.ListenerFiltersTimeout = durationpb.New(d)
	l.ContinueOnListenerFiltersTimeout = true
	return l
}

// InternalListener takes connections from within the same Envoy.
func InternalListener(name string, filters []*listenerv3.ListenerFilter, chains ...*listenerv3.FilterChain) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:              name,
		ListenerSpecifier: &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		ListenerFilters:   slices.Clone(filters),
		FilterChains:      chains,
		TrafficDirection:  corev3.TrafficDirection_OUTBOUND,
	}
}

// LoopGuardChains closes connections that were made to one of the ports that the proxy catches traffic at: passing them on
// would bring them back, without end. by leads nowhere, and says so in the log where anybody cares.
func LoopGuardChains(listener string, by TCPProxy) []*listenerv3.FilterChain {
	var chains []*listenerv3.FilterChain
	for _, port := range [...]uint32{wire.OutboundPort, wire.InboundPort} {
		match := &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)}
		chains = append(chains, FilterChain(fmt.Sprintf("%s-trafficloop-%d", listener, port), match, by.Filter()))
	}
	return chains
}

// ClosedChain ends the connections that match.
func ClosedChain(name string, match *listenerv3.FilterChainMatch) *listenerv3.FilterChain {
	return FilterChain(name, match, ClosingTCPProxy().Filter())
}

// ClosingTCPProxy is the TCP proxy that ends connections, and logs nothing.
func ClosingTCPProxy() TCPProxy {
	return TCPProxy{Stat: wire.BlackHoleCluster, Cluster: wire.BlackHoleCluster}
}
