package inbound

import (
	"fmt"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// port is some of what comes: to one of the pod's ports, or to all that nothing is said of.
type port struct {
	name    string
	number  uint32 // 0 of the others
	cluster string
	match   func() *listenerv3.FilterChainMatch
	in      Inputs
}

// chains are the filter chains of a port. Each connection is matched with the port first, so all that may come is told here again.
func (p port) chains() []*listenerv3.FilterChain {
	loopback := p.match()
	loopback.PrefixRanges = append(envoy.MatchRange("127.0.0.0", 8).PrefixRanges, envoy.MatchRange("::1", 128).PrefixRanges...)
	return append([]*listenerv3.FilterChain{envoy.ClosedChain(p.name+"-loopback", loopback)}, p.shown()...)
}

func (in Inputs) port(number uint32) port {
	p := port{name: fmt.Sprintf("0.0.0.0_%d", number), number: number, cluster: wire.InboundPassthrough, in: in, match: func() *listenerv3.FilterChainMatch {
		m := envoy.MatchRange("0.0.0.0", 0)
		m.PrefixRanges = append(m.PrefixRanges, envoy.MatchRange("::", 0).PrefixRanges...)
		m.DestinationPort = wrapperspb.UInt32(number)
		return m
	}}
	if in.Inbound.HasCluster(number) {
		p.cluster = wire.InboundName(number)
	}
	return p
}

// others are the chains of the ports that nothing is said of, of one address family.
func (in Inputs) others(name, cluster, family string) []*listenerv3.FilterChain {
	return port{name: name, cluster: cluster, in: in, match: func() *listenerv3.FilterChainMatch { return envoy.MatchRange(family, 0) }}.shown()
}

// shown tells apart how connections begin, where that makes a difference. A chain that is for one kind of TLS needs one for the
// rest of it: Envoy looks no further.
func (p port) shown() (out []*listenerv3.FilterChain) {
	lets := func(shows resolve.Transport) resolve.InboundAction { return p.in.Inbound.Action(p.number, shows) }
	mutual, tls, plain := lets(resolve.TransportMutualTLS), lets(resolve.TransportTLS), lets(resolve.TransportPlain)
	if mutual == resolve.TerminateMutualTLS {
		out = append(out, p.endMutual())
	}
	if mutual == resolve.TerminateMutualTLS || tls != plain {
		match := p.match()
		match.TransportProtocol = "tls"
		out = append(out, p.chain(p.name+"-tls", match, tls, false))
	}
	return append(out, p.chain(p.name, p.match(), plain, false))
}

func (p port) endMutual() *listenerv3.FilterChain {
	match := p.match()
	match.TransportProtocol, match.ApplicationProtocols = "tls", wire.MeshALPN
	inside := p.in.Inbound.Inside(p.number)
	c := p.chain(p.name+"-mtls", match, inside, true)
	var offers []string
	if inside == resolve.ProxyRequests {
		offers = []string{"h2", envoy.HTTP11}
	}
	c.TransportSocket = envoy.MeshServerTLS(p.in.Trust, offers...)
	return envoy.WithHandshakeTimeout(c)
}

// chain does what is said; peer is that the client has shown who it is.
func (p port) chain(name string, match *listenerv3.FilterChainMatch, let resolve.InboundAction, peer bool) *listenerv3.FilterChain {
	if let == resolve.CloseConnection {
		closed := envoy.ClosingTCPProxy()
		if p.in.Log != mesh.MeshOff {
			closed.Log, closed.Tags = wire.InboundTCP, map[string]string{wire.TagRoute: wire.ClosedRoute + p.whyClosed()}
		}
		return envoy.FilterChain(name, match, closed.Filter())
	}
	filters := p.onwards(let, peer)
	if peer && p.in.Inbound.Authorizes(p.number) {
		filters = append([]*listenerv3.Filter{envoy.ClientFilter()}, filters...)
	}
	return envoy.FilterChain(name, match, filters...)
}

// onwards are the filters that take a connection, or its requests, to the app, as far as AuthorizationPolicies let them.
func (p port) onwards(let resolve.InboundAction, peer bool) []*listenerv3.Filter {
	authorized := p.in.Inbound.Authorizes(p.number)
	if let == resolve.ProxyRequests {
		m := envoy.HCM{Stat: "inbound_" + p.name, Inbound: true, Peer: peer, Routes: p.routes()}
		if p.recorded() {
			m.Log, m.Denied = wire.InboundHTTP, p.in.Log == mesh.MeshDenied
		}
		if authorized {
			m.Before = envoy.AuthorizationRequestFilters()
		}
		return []*listenerv3.Filter{m.Filter()}
	}
	on := envoy.TCPProxy{Stat: p.cluster, Cluster: p.cluster, AfterHello: peer}
	if p.recorded() {
		on.Log, on.Denied = wire.InboundTCP, p.in.Log == mesh.MeshDenied
	}
	if authorized {
		if p.in.Judge != nil {
			return []*listenerv3.Filter{envoy.AuthorizationNetworkFilter(p.in.Judge), on.Filter()}
		}
		return append(envoy.AuthorizationConnectionFilters(), on.Filter())
	}
	return []*listenerv3.Filter{on.Filter()}
}

// notMutual is what the record says of connections that are closed since they are no TLS of the mesh. Which object asks for that the control
// plane adds.
const notMutual = "the pod takes mutual TLS of the mesh only, and this was something else"

// notHTTP is the same where requests are read.
const notHTTP = "the port is known for HTTP, and this was TLS"

func (p port) whyClosed() string {
	if p.in.Inbound.OnlyMutual(p.number) {
		return notMutual
	}
	return notHTTP
}

// recorded says whether what comes is in the log: not what is the agent's own, nor what no policy could deny where that is all there is.
func (p port) recorded() bool {
	switch {
	case !p.in.Inbound.Alone && slices.Contains(registry.AgentPorts, p.number):
		return false
	case p.in.Log == mesh.MeshDenied:
		return p.in.Inbound.Authorizes(p.number)
	default:
		return p.in.Log == mesh.MeshAll
	}
}

// routes is the table of a port whose requests all go to the app.
func (p port) routes() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name: p.cluster,
		VirtualHosts: []*routev3.VirtualHost{envoy.RefuseOddHosts(&routev3.VirtualHost{
			Name: "inbound|http|" + wire.RouteName(p.number), Domains: []string{"*"},
			Routes: []*routev3.Route{envoy.Route("default", envoy.MatchAnyRequest(), envoy.ToClusterRetried(p.cluster))},
		})},
		ValidateClusters: wrapperspb.Bool(false),
	}
}
