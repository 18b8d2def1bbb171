package envoy

import (
	"time"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	udpproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/udp/udp_proxy/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	hashingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/consistent_hashing/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

const (
	// sessionRest is how long a client's session is kept in which nothing comes.
	sessionRest = time.Minute
	// longestDatagram is the longest that UDP has (RFC 768, over IPv4); Envoy throws away what is longer than it was told.
	longestDatagram = 65507
)

// SessionCluster is the format string of the cluster that a client's session goes to, which the log knows by nothing else.
const SessionCluster = "%DYNAMIC_METADATA(udp.proxy.session:cluster_name)%"

// UDPForwarding hands on what comes to a port by UDP.
type UDPForwarding struct {
	Port   uint32
	IPv6   bool
	Shares []Share
	Log    wire.Place
	Tags   map[string]string // of the log
}

// Share is a part of what comes.
type Share struct {
	Cluster string
	Weight  uint32 // its part of the sum; at least 1
}

// Listener is the port's.
func (d UDPForwarding) Listener() *listenerv3.Listener {
	name := wire.DatagramListener(d.Port)
	// INBOUND has a gateway's agent close it before Envoy ends (sidecar/supervise): sessions are logged then.
	l := BindAll(&listenerv3.Listener{Name: name, TrafficDirection: corev3.TrafficDirection_INBOUND}, d.Port, d.IPv6)
	overUDP(l.Address)
	for _, more := range l.AdditionalAddresses {
		overUDP(more.Address)
	}
	l.UdpListenerConfig = &listenerv3.UdpListenerConfig{DownstreamSocketConfig: wholeDatagrams()}
	l.ListenerFilters = []*listenerv3.ListenerFilter{listenerFilter("envoy.filters.udp_listener.udp_proxy", &udpproxyv3.UdpProxyConfig{
		StatPrefix:           name,
		RouteSpecifier:       &udpproxyv3.UdpProxyConfig_Matcher{Matcher: byShare(d.Shares)},
		IdleTimeout:          durationpb.New(sessionRest),
		UpstreamSocketConfig: wholeDatagrams(),
		AccessLog:            accessLogOf(d.Log, false, d.Tags, true),
	})}
	return l
}

func overUDP(a *corev3.Address) { a.GetSocketAddress().Protocol = corev3.SocketAddress_UDP }

func wholeDatagrams() *corev3.UdpSocketConfig {
	return &corev3.UdpSocketConfig{MaxRxDatagramSize: wrapperspb.UInt64(longestDatagram)}
}

// byShare gives each client to one of the shares, told by its port, so that all that it sends goes to one. Envoy has no weights there.
func byShare(shares []Share) *cncfmatcherv3.Matcher {
	var sum uint32
	for _, s := range shares {
		sum += s.Weight
	}
	to := func(s Share) *OnMatch { return OnMatchAction("route", &udpproxyv3.Route{Cluster: s.Cluster}) }
	var lines []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher
	above := sum
	for i := len(shares) - 1; i > 0; i-- {
		above -= shares[i].Weight
		lines = append(lines, MatchCase(asksBy(extension("port", &inputsv3.SourcePortInput{}), extension("share", &hashingv3.ConsistentHashing{Threshold: above, Modulo: sum})), to(shares[i])))
	}
	return MatchList(lines, to(shares[0]))
}

// SealOverUDP is Seal for a cluster that datagrams go to: its sockets have no options of TCP's.
func SealOverUDP(t resource.Type, c *clusterv3.Cluster) *resource.Resource {
	c.PerConnectionBufferLimitBytes = wrapperspb.UInt32(connectionBuffer)
	return resource.Seal(t, c.Name, c)
}

// LimitSessions limits how many clients a cluster has at a time, where a rule does not say fewer: each is a socket of the gateway's, and anybody
// who sends opens one.
func LimitSessions(c *clusterv3.Cluster, most uint32) {
	if b := c.GetCircuitBreakers().GetThresholds(); len(b) > 0 {
		b[0].MaxConnections = wrapperspb.UInt32(min(b[0].MaxConnections.GetValue(), most))
	}
}
