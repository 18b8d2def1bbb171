package egressgateway

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// The internal listeners, and the clusters in front of them, where a gateway asks about tunnels.
const (
	tunnelsTLS = "egress-tunnels-tls"
	tunnelsTCP = "egress-tunnels-tcp"
)

func tunnelsOf(alpn string) string {
	if alpn == wire.ALPNTLS {
		return tunnelsTLS
	}
	return tunnelsTCP
}

// tunnelChain takes tunnels over mTLS. It goes on when the client's certificate was verified: who the client is, and what
// its TLS name says (TunnelName), goes along.
func tunnelChain(trust envoy.TrustDomains, alpn string) *listenerv3.FilterChain {
	const sni = "connection.requested_server_name"
	const port, subset = sni + ".split('_.')[1]", sni + ".split('_.')[2]"
	know := envoy.NetworkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{OnDownstreamTlsHandshake: []*statev3.FilterStateValue{
		envoy.State(wire.StatePeer, "%DOWNSTREAM_PEER_URI_SAN%", envoy.SharedOnce),
		envoy.State(wire.StateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", envoy.SharedOnce),
		envoy.State(wire.StateFrom, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", envoy.SharedOnce),
		envoy.ComputedState(wire.StateAuthority, sni+".replace('outbound_.' + "+port+" + '_.' + "+subset+" + '_.', '') + ':' + "+port, envoy.SharedOnce),
		envoy.ComputedState(wire.StateSubset, subset+".split('~')[0]", envoy.SharedOnce),
		envoy.ComputedState(wire.StateDialled, subset+".split('~')[1]", envoy.SharedOnce),
		envoy.ComputedState(wire.StateTunnel, "destination.address + ' ' + "+subset, envoy.SharedOnce),
	}})
	c := envoy.FilterChain(alpn, &listenerv3.FilterChainMatch{ApplicationProtocols: []string{alpn}},
		know, envoy.TCPProxy{Stat: alpn, Cluster: tunnelsOf(alpn), AfterHello: true}.Filter())
	c.TransportSocket = envoy.MeshServerTLS(trust, alpn)
	return envoy.WithHandshakeTimeout(c)
}

// tunnelsBase is what is behind: the internal listeners that ask.
func (in Inputs) tunnelsBase() []*resource.Resource {
	out := answersBase(envoy.AskedOfGateway)
	if in.Fetch > 0 {
		out = []*resource.Resource{
			envoy.SealCluster(envoy.QuestionCluster(wire.ExitDecide)), envoy.ScopedRoutes(wire.ExitRoute),
			envoy.Seal(resource.Listener, wire.ExitDecide, envoy.FetchingTableListener(wire.ExitDecide, wire.ExitRoute, envoy.AskedOfGateway)),
		}
	}
	for _, l := range []*listenerv3.Listener{tunnelsTLSListener(in.OnDemand), tunnelsTCPListener(in.OnDemand)} {
		out = append(out, envoy.SealCluster(envoy.InternalCluster(l.Name)), envoy.Seal(resource.Listener, l.Name, l))
	}
	return out
}

// answersBase is where an exit's table answers questions.
func answersBase(asked envoy.TableOwner) []*resource.Resource {
	return []*resource.Resource{envoy.SealCluster(envoy.QuestionCluster(wire.ExitDecide)), envoy.Seal(resource.Listener, wire.ExitDecide, envoy.TableListener(wire.ExitDecide, wire.ExitRoute, asked))}
}

// askAbout asks about a tunnel. What it is for, and who the client is, came with it.
func askAbout(kind string) *listenerv3.Filter {
	came := func(key string) string { return "%FILTER_STATE(" + key + ":PLAIN)%" }
	return envoy.Question{Table: wire.ExitDecide, Name: came(wire.StateAuthority), Also: map[string]string{
		envoy.HeaderKind: kind, envoy.HeaderPeer: came(wire.StatePeer), envoy.HeaderFrom: came(wire.StateFrom), wire.HeaderRegisteredIn: came(wire.StateSubset), wire.HeaderDialled: came(wire.StateDialled),
	}}.Filter()
}

// gatewayTags are those of a tunnel that was asked about.
func gatewayTags() map[string]string {
	return envoy.QuestionTags(envoy.TagFormats[wire.TagAuthority])
}

// tunnelsTCPListener passes on what nobody looks at: the server may speak first.
func tunnelsTCPListener(onDemand bool) *listenerv3.Listener {
	return envoy.InternalListener(tunnelsTCP, nil, envoy.FilterChain("tcp", nil,
		askAbout(envoy.KindTCP),
		envoy.RouteByAnswer(envoy.State(wire.StateOriginalDst, "%FILTER_STATE("+wire.StateDialled+":PLAIN)%", envoy.NotShared)),
		envoy.TCPProxy{Stat: tunnelsTCP, Cluster: wire.BlackHoleCluster, Log: wire.GatewayTCP, Begins: true, OnDemand: onDemand, Tags: gatewayTags()}.Filter()))
}

// tunnelsTLSListener passes TLS on whose ClientHello names the host that the tunnel is for. A pattern's hosts are looked up
// behind it, when their name was checked there.
func tunnelsTLSListener(onDemand bool) *listenerv3.Listener {
	along := func(key string) *statev3.FilterStateValue {
		return envoy.ComputedState(key, envoy.AnswerExpression(envoy.SayThere)+" + string(filter_state['"+key+"'])", envoy.SharedOnce)
	}
	l := envoy.InternalListener(tunnelsTLS, []*listenerv3.ListenerFilter{envoy.InspectTLS()}, envoy.FilterChain("tls", envoy.MatchTLS(),
		askAbout(envoy.KindTLS),
		sameNameHere(),
		envoy.RouteByAnswer(along(wire.StateAuthority), along(wire.StatePeer), along(wire.StateSource), along(wire.StateTunnel), envoy.State(wire.StateCluster, envoy.AnswerFormat(envoy.SayBehind), envoy.SharedOnce), envoy.State(wire.StatePort, envoy.AnswerFormat(envoy.SayPort), envoy.SharedOnce), envoy.ShareRulings()),
		envoy.TCPProxy{Stat: tunnelsTLS, Cluster: wire.BlackHoleCluster, Log: wire.GatewayTLS, Begins: true, OnDemand: onDemand, Tags: gatewayTags()}.Filter()))
	// the answer is for the log: which object says that it has to be TLS
	l.DefaultFilterChain = envoy.FilterChain("not-tls", nil, askAbout(envoy.KindTCP),
		envoy.TCPProxy{Stat: tunnelsTLS, Cluster: wire.BlackHoleCluster, Log: wire.GatewayTLS, Tags: gatewayTags()}.Filter())
	return envoy.WithFirstByteTimeout(l)
}

// sameNameHere is sameName but for what is checked by the listener behind.
func sameNameHere() *listenerv3.Filter {
	rules := sameNameRules(false)
	rules.Policies["checked-inside"] = &rbacv3.Policy{
		Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{MetadataMatcher: &matcherv3.MetadataMatcher{
			Filter: envoy.FilterAsk,
			Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: envoy.SayLoggedBy}}},
			Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: envoy.Exact(envoy.LoggedInside)}},
		}}}}},
		Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
	}
	return envoy.NetworkFilter("envoy.filters.network.rbac", &netrbacv3.RBAC{StatPrefix: "egress_sni_", Rules: rules})
}
