package farend

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
)

// applyTraffic makes a cluster use its endpoints as a rule says.
func applyTraffic(c *clusterv3.Cluster, t registry.TrafficPolicy, port registry.Port) {
	limit(c, t.Pool)
	keepAlive(c, t.Pool.GetTcp().GetTcpKeepalive())
	if h := t.Pool.GetHttp(); port.Protocol.IsHTTP() && (h != nil || t.Pool.GetTcp().GetMaxConnectionDuration() != nil) {
		poolHTTP(c, h, t.Pool.GetTcp().GetMaxConnectionDuration())
	}
	if c.LbPolicy == clusterv3.Cluster_CLUSTER_PROVIDED { // it has no endpoints to choose from
		return
	}
	eject(c, t.Outlier)
	if port.Protocol == registry.UDP { // Envoy does not count clients of it as something that an endpoint has to do
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
	}
	balance(c, t.Balancer)
}

// limit sets the circuit breakers. 0 leaves one open, as in Istio.
func limit(c *clusterv3.Cluster, p *networking.ConnectionPoolSettings) {
	b := c.GetCircuitBreakers().GetThresholds()
	if len(b) == 0 {
		return
	}
	for _, l := range []struct {
		most int32
		of   **wrapperspb.UInt32Value
	}{
		{p.GetTcp().GetMaxConnections(), &b[0].MaxConnections}, {p.GetHttp().GetHttp1MaxPendingRequests(), &b[0].MaxPendingRequests},
		{p.GetHttp().GetHttp2MaxRequests(), &b[0].MaxRequests}, {p.GetHttp().GetMaxRetries(), &b[0].MaxRetries},
	} {
		if l.most > 0 {
			*l.of = wrapperspb.UInt32(uint32(l.most))
		}
	}
}

func keepAlive(c *clusterv3.Cluster, k *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) {
	if k == nil {
		return
	}
	out := &corev3.TcpKeepalive{}
	if k.Probes > 0 {
		out.KeepaliveProbes = wrapperspb.UInt32(k.Probes)
	}
	if k.Time != nil {
		out.KeepaliveTime = wrapperspb.UInt32(max(uint32(k.Time.AsDuration().Seconds()), 1))
	}
	if k.Interval != nil {
		out.KeepaliveInterval = wrapperspb.UInt32(max(uint32(k.Interval.AsDuration().Seconds()), 1))
	}
	c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: out}
}

// poolHTTP sets what is about connections for requests.
func poolHTTP(c *clusterv3.Cluster, h *networking.ConnectionPoolSettings_HTTPSettings, atMost *durationpb.Duration) {
	options := &httpv3.HttpProtocolOptions{}
	for _, packed := range c.TypedExtensionProtocolOptions {
		if err := packed.UnmarshalTo(options); err != nil {
			panic("translate: a cluster's own options: " + err.Error())
		}
	}
	if options.UpstreamProtocolOptions == nil {
		options.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
		}}
	}
	common := &corev3.HttpProtocolOptions{IdleTimeout: h.GetIdleTimeout(), MaxConnectionDuration: atMost}
	if n := h.GetMaxRequestsPerConnection(); n > 0 {
		common.MaxRequestsPerConnection = wrapperspb.UInt32(uint32(n))
	}
	options.CommonHttpProtocolOptions = common
	if http2 := options.GetExplicitHttpConfig().GetHttp2ProtocolOptions(); http2 != nil {
		http2 = proto.CloneOf(http2)
		if n := h.GetMaxConcurrentStreams(); n > 0 {
			http2.MaxConcurrentStreams = wrapperspb.UInt32(uint32(n))
		}
		if k := h.GetHttp2KeepAlive(); k != nil {
			http2.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: k.Interval, Timeout: k.Timeout}
		}
		options.GetExplicitHttpConfig().ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: http2}
	}
	c.TypedExtensionProtocolOptions = envoy.HTTPOptions(options)
}

// eject leaves endpoints that fail alone for a while. Ejection by success rate is off, and so is the panic threshold unless
// it is written, as in Istio.
func eject(c *clusterv3.Cluster, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	out := &clusterv3.OutlierDetection{EnforcingSuccessRate: wrapperspb.UInt32(0), Interval: o.Interval, BaseEjectionTime: o.BaseEjectionTime}
	out.Consecutive_5Xx, out.EnforcingConsecutive_5Xx = ejectAfter(o.Consecutive_5XxErrors)
	out.ConsecutiveGatewayFailure, out.EnforcingConsecutiveGatewayFailure = ejectAfter(o.ConsecutiveGatewayErrors)
	if o.MaxEjectionPercent > 0 {
		out.MaxEjectionPercent = wrapperspb.UInt32(uint32(o.MaxEjectionPercent))
	}
	if o.SplitExternalLocalOriginErrors {
		out.SplitExternalLocalOriginErrors = true
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
		if o.ConsecutiveLocalOriginFailures.GetValue() > 0 {
			out.ConsecutiveLocalOriginFailure, out.EnforcingConsecutiveLocalOriginFailure = ejectAfter(o.ConsecutiveLocalOriginFailures)
		}
	}
	c.OutlierDetection = out
	c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: &typev3.Percent{Value: float64(o.MinHealthPercent)}}
}

// byLocality has groups of endpoints take the shares that they are given.
func byLocality(c *clusterv3.Cluster) {
	if c.CommonLbConfig == nil {
		c.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{}
	}
	c.CommonLbConfig.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
		LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
	}
}

// ejectAfter gives a number of failures, and in how many percent of cases they count: 0 failures turn it off.
func ejectAfter(n *wrapperspb.UInt32Value) (failures, percent *wrapperspb.UInt32Value) {
	switch {
	case n == nil:
		return nil, nil
	case n.Value == 0:
		return nil, wrapperspb.UInt32(0)
	default:
		return n, wrapperspb.UInt32(100)
	}
}

// balance says how an endpoint is chosen, where the rule does; warming up is of the usual way, too.
func balance(c *clusterv3.Cluster, l *networking.LoadBalancerSettings) {
	if h := l.GetConsistentHash(); h != nil {
		balanceByHash(c, h)
		return
	}
	switch l.GetSimple() {
	case networking.LoadBalancerSettings_RANDOM:
		c.LbPolicy = clusterv3.Cluster_RANDOM
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		c.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
	case networking.LoadBalancerSettings_LEAST_REQUEST, networking.LoadBalancerSettings_LEAST_CONN:
		c.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
	}
	switch start := slowStart(l); {
	case start == nil:
	case c.LbPolicy == clusterv3.Cluster_ROUND_ROBIN:
		c.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: start}}
	case c.LbPolicy == clusterv3.Cluster_LEAST_REQUEST:
		c.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: start}}
	}
}

// slowStart gives new endpoints a smaller share first.
func slowStart(l *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	w := l.GetWarmup()
	if w == nil {
		if l.GetWarmupDurationSecs() == nil {
			return nil
		}
		return &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: l.GetWarmupDurationSecs()}
	}
	out := &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: w.Duration}
	if w.MinimumPercent != nil {
		out.MinWeightPercent = &typev3.Percent{Value: w.MinimumPercent.Value}
	}
	if w.Aggression != nil {
		out.Aggression = &corev3.RuntimeDouble{DefaultValue: w.Aggression.Value, RuntimeKey: "slow_start.aggression"}
	}
	return out
}

func balanceByHash(c *clusterv3.Cluster, h *networking.LoadBalancerSettings_ConsistentHashLB) {
	if m := h.GetMaglev(); m != nil {
		c.LbPolicy = clusterv3.Cluster_MAGLEV
		if m.TableSize > 0 {
			c.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(min(m.TableSize, registry.MostInTable))}}
		}
		return
	}
	size := uint64(1024) // Istio's, and Envoy's
	for _, n := range []uint64{h.GetMinimumRingSize(), h.GetRingHash().GetMinimumRingSize()} {
		if n > 0 {
			size = min(n, registry.MostInTable)
		}
	}
	c.LbPolicy = clusterv3.Cluster_RING_HASH
	c.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{
		MinimumRingSize: wrapperspb.UInt64(size), MaximumRingSize: wrapperspb.UInt64(max(size, registry.MostInTable)),
	}}
}

// WithHashPolicy says by what of a request its endpoint is chosen, whichever of its destinations it goes to. Envoy knows what to hash of a route alone, so
// that what several destinations ask for counts for each of them that asks, together and in their order, as in Istio.
func WithHashPolicy(a *routev3.RouteAction, to ...registry.TrafficPolicy) *routev3.RouteAction {
	for _, t := range to {
		p := hashPolicy(t.Hashed())
		if p != nil && !slices.ContainsFunc(a.HashPolicy, func(there *routev3.RouteAction_HashPolicy) bool { return proto.Equal(there, p) }) {
			a.HashPolicy = append(a.HashPolicy, p)
		}
	}
	return a
}

// hashPolicy is what is hashed; nil for nothing, and for what Envoy would refuse.
func hashPolicy(h *networking.LoadBalancerSettings_ConsistentHashLB) *routev3.RouteAction_HashPolicy {
	p := &routev3.RouteAction_HashPolicy{}
	switch key := h.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		p.PolicySpecifier = &routev3.RouteAction_HashPolicy_Header_{Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: key.HttpHeaderName}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		p.PolicySpecifier = &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookieOf(key.HttpCookie)}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		if !key.UseSourceIp {
			return nil
		}
		p.PolicySpecifier = &routev3.RouteAction_HashPolicy_ConnectionProperties_{ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		p.PolicySpecifier = &routev3.RouteAction_HashPolicy_QueryParameter_{QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: key.HttpQueryParameterName}}
	}
	if p.Validate() != nil {
		return nil
	}
	return p
}

func cookieOf(c *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) *routev3.RouteAction_HashPolicy_Cookie {
	out := &routev3.RouteAction_HashPolicy_Cookie{Name: c.Name, Path: c.Path, Ttl: c.Ttl}
	for _, a := range c.Attributes {
		out.Attributes = append(out.Attributes, &routev3.RouteAction_HashPolicy_CookieAttribute{Name: a.Name, Value: a.Value})
	}
	return out
}
