package interpret

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	netextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ratelimit/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// network runs a filter chain's filters. Each sees the connection when it comes, before any of them sees bytes: what those
// of access control refuse, when bytes come, was decided for by the others.
func (n *conn) network(filters []*listenerv3.Filter) {
	s := &scope{conn: n, state: n.state, metadata: n.metadata}
	denied := ""
	for _, f := range filters {
		config := f.GetTypedConfig()
		if by := f.GetConfigDiscovery(); by != nil {
			if config = n.proxy.extension(f.Name, by); config == nil {
				n.close("the filter %s is not there yet", f.Name)
				return
			}
		}
		m, err := config.UnmarshalNew()
		if err != nil {
			unknown("network filter %s: %v", f.Name, err)
		}
		switch m := m.(type) {
		case *netstatev3.Config:
			n.state.set(s, m.OnNewConnection)
			if n.shaken {
				n.state.set(s, m.OnDownstreamTlsHandshake)
			}
		case *netratelimitv3.RateLimit:
			if !n.ask(s, m) {
				n.tcpEntry(s, logsAfter(filters), "", nil)
				return
			}
		case *netrbacv3.RBAC:
			if shadow := s.rule(nil, m.ShadowMatcher); shadow != nil {
				s.note(accessOfConnections, m.ShadowRulesStatPrefix+"shadow_", shadow)
			}
			if verdict := s.rule(m.Rules, m.Matcher); verdict != nil && denied == "" {
				denied = verdict.denial()
			}
		case *netextauthzv3.ExtAuthz:
			if denied == "" && s.metadataHolds(m.FilterEnabledMetadata) {
				n.step("asks the authorizer %s", m.StatPrefix)
				n.out.Asked = append(n.out.Asked, m.StatPrefix)
			}
		case *snidfpv3.FilterConfig:
			n.lookedUp(s)
		case *tcpv3.TcpProxy:
			n.tcpProxy(s, m, denied)
			return
		case *hcmv3.HttpConnectionManager:
			if denied != "" {
				n.close("%s", denied)
				return
			}
			n.http(m)
			return
		default:
			unknown("network filter %s: %T", f.Name, m)
		}
	}
	unknown("listener %q: a filter chain without an end", n.listener.Name)
}

// logsAfter are the logs of the chain's TCP proxy, which writes an entry also where another filter closed the connection.
func logsAfter(filters []*listenerv3.Filter) []*accesslogv3.AccessLog {
	t := &tcpv3.TcpProxy{}
	if last := filters[len(filters)-1]; last.GetTypedConfig().MessageIs(t) {
		return unpack(last.Name, last.GetTypedConfig(), t).AccessLog
	}
	return nil
}

// ask asks a service for rate limits, and puts what its answer says into the connection's metadata. false is that the connection was closed.
func (n *conn) ask(s *scope, m *netratelimitv3.RateLimit) bool {
	grpc := m.GetRateLimitService().GetGrpcService()
	q := &Request{Method: "POST", Path: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", Headers: map[string]string{
		"content-type": "application/grpc", "te": "trailers",
	}}
	for _, h := range grpc.InitialMetadata {
		if v := s.fill(h.Value, ""); v != "" {
			q.Headers[h.Key] = v
		}
	}
	cluster := grpc.GetEnvoyGrpc().GetClusterName()
	q.Authority = cluster
	n.step("asks %s about %v", cluster, q.Headers)
	defer n.deeper()()
	asked := Outcome{}
	sub := &try{proxy: n.proxy, chance: n.chance, at: n.at, out: &asked, depth: n.depth}
	if c := n.proxy.cluster(cluster, false); c != nil {
		sub.send(&sending{cluster: c, bytes: Bytes{Request: q}, state: filterState{}})
	}
	n.out.Steps = append(n.out.Steps, asked.Steps...)
	answer := &servicev3.RateLimitResponse{}
	switch {
	case asked.Response == nil:
		n.close("nobody answers the question: %s", asked.Closed)
	case asked.Response.Status != 200 || asked.Response.Headers["content-type"] != "application/grpc":
		n.close("the answer to the question is %d %s", asked.Response.Status, asked.Response.Details)
	case proto.Unmarshal(asked.Response.Body, answer) != nil:
		n.close("the answer to the question is no message: %q", asked.Response.Body)
	case answer.OverallCode != servicev3.RateLimitResponse_OK:
		n.close("the answer to the question is %s", answer.OverallCode)
	default:
		n.metadata["envoy.filters.network.ratelimit"] = textsOf(answer.DynamicMetadata)
		n.step("answered %v", n.metadata["envoy.filters.network.ratelimit"])
		return true
	}
	if !m.FailureModeDeny {
		unknown("a question that may stay without an answer")
	}
	return false
}

// tcpProxy passes the bytes on.
func (n *conn) tcpProxy(s *scope, m *tcpv3.TcpProxy, denied string) {
	name := m.GetCluster()
	if v, ok := n.state[keyTCPCluster]; ok {
		name = v.text
	}
	s.cluster = n.proxy.cluster(name, m.OnDemand != nil)
	var flags []string
	switch {
	case s.cluster == nil:
		n.close("no cluster %q", name)
		flags = []string{"NC"}
	case denied != "":
		n.close("%s", denied)
	default:
		n.step("bytes go to %s", name)
		n.send(&sending{cluster: s.cluster, bytes: n.bytes, state: s.state, conn: n, flags: &flags})
	}
	n.tcpEntry(s, m.AccessLog, denied, flags)
}
