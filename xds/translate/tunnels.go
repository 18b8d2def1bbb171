package translate

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/xds/accesslog"
)

// What a tunnel between sidecar and gateway offers in ALPN (RFC 7301): it tells tunnels from requests, and whether what is
// inside begins with a ClientHello, which the gateway then reads.
const (
	alpnTLS = "sallyport-tls"
	alpnTCP = "sallyport-tcp"
)

// The internal listeners, and the clusters in front of them, where a gateway asks about tunnels, and its table answers.
const (
	exitDecide = "decide-egress"
	tunnelsTLS = "egress-tunnels-tls"
	tunnelsTCP = "egress-tunnels-tcp"
)

func tunnelsOf(alpn string) string {
	if alpn == alpnTLS {
		return tunnelsTLS
	}
	return tunnelsTCP
}

// tunnelChain takes tunnels over mTLS. It goes on when the client's certificate was verified: who the client is, and what
// its TLS name says (tunnelName), goes along.
func tunnelChain(trust trusts, alpn string) *listenerv3.FilterChain {
	const sni = "connection.requested_server_name"
	const port, subset = sni + ".split('_.')[1]", sni + ".split('_.')[2]"
	know := networkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{OnDownstreamTlsHandshake: []*statev3.FilterStateValue{
		state(statePeer, "%DOWNSTREAM_PEER_URI_SAN%", once),
		state(stateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", once),
		computed(stateAuthority, sni+".replace('outbound_.' + "+port+" + '_.' + "+subset+" + '_.', '') + ':' + "+port, once),
		computed(stateSubset, subset+".split('~')[0]", once),
		computed(stateDialled, subset+".split('~')[1]", once),
	}})
	c := chain(alpn, &listenerv3.FilterChainMatch{ApplicationProtocols: []string{alpn}},
		know, proxy{stat: alpn, cluster: tunnelsOf(alpn), afterHello: true}.filter())
	c.TransportSocket = meshServerTLS(trust, alpn)
	return handshakeWithin(c)
}

// tunnelsBase is what is behind: the internal listeners that ask.
func tunnelsBase(onDemand bool) []*Resource {
	out := append(askBase(), sealCluster(asking(exitDecide)), seal(Listener, exitDecide, tableListener(exitDecide, ExitRoute, true)))
	for _, l := range []*listenerv3.Listener{tunnelsTLSListener(onDemand), tunnelsTCPListener(onDemand)} {
		out = append(out, sealCluster(internal(l.Name)), seal(Listener, l.Name, l))
	}
	return out
}

// askAbout asks about a tunnel. What it is for, and who the client is, came with it.
func askAbout(kind string) *listenerv3.Filter {
	came := func(key string) string { return "%FILTER_STATE(" + key + ":PLAIN)%" }
	return question{table: exitDecide, name: came(stateAuthority), also: map[string]string{
		headerKind: kind, headerPeer: came(statePeer), headerRegisteredIn: came(stateSubset), headerDialled: came(stateDialled),
	}}.filter()
}

// gatewayTags are those of a tunnel that was asked about.
func gatewayTags() map[string]string {
	return askedTags(tagFormats[accesslog.TagAuthority])
}

// tunnelsTCPListener passes on what nobody looks at: the server may speak first.
func tunnelsTCPListener(onDemand bool) *listenerv3.Listener {
	return internalListener(tunnelsTCP, nil, chain("tcp", nil,
		askAbout(kindTCP),
		goesBy(state(stateOriginalDst, "%FILTER_STATE("+stateDialled+":PLAIN)%", stay)),
		proxy{stat: tunnelsTCP, cluster: blackHoleCluster, log: accesslog.GatewayTCP, onDemand: onDemand, tags: gatewayTags()}.filter()))
}

// tunnelsTLSListener passes TLS on whose ClientHello names the host that the tunnel is for. A pattern's hosts are looked up
// behind it, when their name was checked there.
func tunnelsTLSListener(onDemand bool) *listenerv3.Listener {
	along := func(key string) *statev3.FilterStateValue {
		return computed(key, saidIn(sayThere)+" + string(filter_state['"+key+"'])", once)
	}
	l := internalListener(tunnelsTLS, []*listenerv3.ListenerFilter{inspectTLS()}, chain("tls", tlsSpoken(),
		askAbout(kindTLS),
		sameNameHere(),
		goesBy(along(stateAuthority), along(statePeer), along(stateSource), state(stateCluster, said(sayBehind), once), state(statePort, said(sayPort), once)),
		proxy{stat: tunnelsTLS, cluster: blackHoleCluster, log: accesslog.GatewayTLS, onDemand: onDemand, tags: gatewayTags()}.filter()))
	l.DefaultFilterChain = chain("not-tls", nil, proxy{stat: tunnelsTLS, cluster: blackHoleCluster, log: accesslog.GatewayTLS}.filter())
	return speakWithin(l)
}

// sameNameHere is sameName but for what is checked by the listener behind.
func sameNameHere() *listenerv3.Filter {
	rules := sameNameRules(false)
	rules.Policies["checked-inside"] = &rbacv3.Policy{
		Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{MetadataMatcher: &matcherv3.MetadataMatcher{
			Filter: filterAsk,
			Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: sayTold}}},
			Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: exact(toldInside)}},
		}}}}},
		Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
	}
	return networkFilter("envoy.filters.network.rbac", &netrbacv3.RBAC{StatPrefix: "egress_sni_", Rules: rules})
}
