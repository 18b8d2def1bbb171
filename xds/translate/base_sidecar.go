package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// The ports that a pod's traffic is redirected to; Istio's.
const (
	outboundPort = 15001
	inboundPort  = 15006
)

// sidecarBase is everything of a sidecar that is not about single hosts: one listener, one internal listener and
// one route table for each port in use, the same for all other ports, and the way in.
func sidecarBase(in sidecarIn) []*Resource {
	out := []*Resource{
		sealCluster(nowhere()),
		sealCluster(connecting(originalDestination(passthroughCluster, accesslog.RolePassthrough), in.connect)),
		sealCluster(inboundCluster(inboundPassthrough, "127.0.0.6")),
		sealCluster(inboundCluster(inboundPassthrough6, "::6")),
		seal(Listener, virtualInbound, inboundListener(in.ipv6)),
		seal(Listener, virtualOutbound, outboundListener(in)),
		sealCluster(asking(catchAllDecide)),
		seal(Listener, catchAllDecide, tableListener(catchAllDecide, catchAllDecide, false)),
		sealCluster(internal(patternsInside)),
		seal(Listener, patternsInside, patternsListener()),
		seal(Route, catchAllDecide, table(catchAllDecide, lastResort(in.outside), inline{}, true)),
	}
	out = append(out, askBase()...)
	if in.outside.Dynamic {
		out = append(out, sealCluster(byHostOfRequest()))
	}
	for _, g := range in.gateways {
		out = append(out, gatewayCluster(g, in.connect)...)
	}
	for _, p := range in.ports {
		name := fmt.Sprintf("0.0.0.0_%d", p.number)
		decide := decideName(p.number)
		out = append(out,
			sealCluster(asking(decide)),
			seal(Listener, name, portListener(name, p, in)),
			seal(Listener, decide, tableListener(decide, routeName(p.number), false)),
			seal(Route, routeName(p.number), table(routeName(p.number), lastResort(in.outside, askAgain(p)...), in.hosts, true)),
		)
		out = append(out, firstRow(routeName(p.number), in.hosts)...)
	}
	return out
}

func sealCluster(c *clusterv3.Cluster) *Resource { return seal(Cluster, c.Name, c) }

// gatewayCluster is the leg to an egress gateway, over mTLS: requests share an HTTP/2 connection, an upgrade has an
// HTTP/1.1 connection to itself (alone), and each tunnel a plain one, whose TLS name says whereto it wants (answer).
func gatewayCluster(g gateway, connect time.Duration) []*Resource {
	name := g.cluster()
	c := connecting(byDiscovery(name, metadata(accesslog.RoleGateway, "")), connect)
	c.TypedExtensionProtocolOptions = meshProtocol()
	sni := fmt.Sprintf("outbound_.%d_._.%s", GatewayPort, g.ref.Host())
	c.TransportSocket = meshClientTLS(sni, g.identities)
	return []*Resource{sealCluster(c), seal(Endpoints, name, load(name, g.port, g.endpoints))}
}

// portListener takes the connections of one port. It does not bind: virtualOutbound hands them over. Requests are
// decided by their Host in the port's table; the same table is asked about TLS connections by their SNI, and about the rest by
// its address.
func portListener(name string, p listening, in sidecarIn) *listenerv3.Listener {
	l := at(&listenerv3.Listener{
		Name:             name,
		BindToPort:       wrapperspb.Bool(false),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
	}, p.number, in.ipv6)
	decide := decideName(p.number)
	if !p.opaque {
		l.ListenerFilters = inspectors()
		l.FilterChains = []*listenerv3.FilterChain{
			tlsChain(decide, ""),
			chain("http", httpSpoken(), p.requests(name, in)...),
		}
		detectWithin(l, in.detect)
	}
	for _, r := range p.ranges {
		l.FilterChains = append(l.FilterChains, p.rangeChains(name, r, in)...)
	}
	byAddress := tunnel{table: decide, stat: "outbound_" + name}
	for _, made := range [...]netip.Prefix{host.MadeUp4, host.MadeUp6} {
		if !slices.ContainsFunc(p.ranges, func(r rangeUse) bool { return r.prefix.Overlaps(made) }) {
			continue // the usual case: the default does it
		}
		l.FilterChains = append(l.FilterChains, chain(made.String(), within(made.Addr().String(), made.Bits()), byAddress.filters()...))
	}
	l.DefaultFilterChain = chain("tcp", nil, byAddress.filters()...)
	return l
}

// requests reads requests, and follows the port's table.
func (p listening) requests(name string, in sidecarIn) []*listenerv3.Filter {
	return in.requests(manager{stat: "outbound_" + name, route: routeName(p.number), log: accesslog.SidecarHTTP})
}

// requests lets the rows for what nobody registered know where a request was sent to.
func (in sidecarIn) requests(m manager) []*listenerv3.Filter {
	return []*listenerv3.Filter{setState(state(stateOriginalDst, "%DOWNSTREAM_LOCAL_ADDRESS%", stay)), m.filter()}
}

// tlsChain asks about TLS connections by their SNI, which is "" where the ClientHello holds none.
func tlsChain(decide, asRange string) *listenerv3.FilterChain {
	return chain("tls", tlsSpoken(), tunnel{table: decide, stat: decide, tls: true, asRange: asRange}.filters()...)
}

// tunnel is a connection of an app's whose bytes are not looked at.
type tunnel struct {
	table   string // the internal listener of the table that is asked
	stat    string
	tls     bool   // it is asked for by its SNI, not by its address
	asRange string // what is asked for last, "host:port": the owner of the range that the address is in
}

// filters ask where it goes, and go there.
func (t tunnel) filters() []*listenerv3.Filter {
	q := question{table: t.table, name: "%DOWNSTREAM_LOCAL_ADDRESS%", also: map[string]string{
		headerKind: kindTCP, headerTo: "%DOWNSTREAM_LOCAL_ADDRESS%", headerRange: t.asRange,
	}}
	whereto := []*statev3.FilterStateValue{
		state(stateProtocols, said(sayALPN), stay),
		state(stateServerName, said(saySNI), stay),
		computed(stateServerName, saidIn(sayDialled)+" + destination.address + "+saidIn(sayHost), stay),
	}
	if t.tls {
		q.name, q.also[headerKind] = "%REQUESTED_SERVER_NAME%:%DOWNSTREAM_LOCAL_PORT%", kindTLS
		whereto = append(whereto,
			computed(stateServerName, saidIn(saySNIOf)+" + connection.requested_server_name", stay),
			computed(stateAuthority, saidIn(sayThere)+" + connection.requested_server_name + ':' + "+saidIn(sayPort), once),
			computed(stateSource, saidIn(sayThere)+" + source.address", once),
			computed(stateDialled, saidIn(sayThere)+" + destination.address", once),
			state(stateCluster, said(sayBehind), once),
			state(statePort, said(sayPort), once),
		)
	}
	return []*listenerv3.Filter{q.filter(), goesBy(whereto...), proxy{stat: t.stat, cluster: blackHoleCluster, log: accesslog.SidecarTunnel, tags: askedTags(q.name)}.filter()}
}

// patternsInside is the internal listener, and the cluster in front of it, where a sidecar looks up the name of a TLS
// connection to a pattern's host that it connects to itself.
const patternsInside = "outbound-any"

func patternsListener() *listenerv3.Listener {
	out := proxy{stat: patternsInside, cluster: blackHoleCluster, log: accesslog.SidecarTunnel, tags: map[string]string{
		accesslog.TagAuthority: tagFormats[accesslog.TagAuthority], accesslog.TagSource: tagFormats[accesslog.TagSource],
		accesslog.TagTarget: tagFormats[accesslog.TagTarget],
	}}
	// what was read before is read again: Envoy looks names up only where it knows one
	return speakWithin(internalListener(patternsInside, []*listenerv3.ListenerFilter{inspectTLS()}, chain("tls", nil, append(lookUp(), out.filter())...)))
}

// rangeChains are for what goes to a range of addresses. A single address that somebody wrote comes before the range
// that it is in; what the table does not know by it comes again as the range's host. In a TLS service's range, names come
// before both, and what is not TLS is not the service's.
func (p listening) rangeChains(name string, r rangeUse, in sidecarIn) []*listenerv3.FilterChain {
	here := func(match *listenerv3.FilterChainMatch) *listenerv3.FilterChainMatch {
		match.PrefixRanges = within(r.prefix.Addr().String(), r.prefix.Bits()).PrefixRanges
		return match
	}
	decide, asHost := decideName(p.number), hostPort(r.host, r.port)
	other := tunnel{table: decide, stat: "outbound_" + name}
	if !r.tls {
		other.asRange = asHost
		return []*listenerv3.FilterChain{chain(r.prefix.String(), here(&listenerv3.FilterChainMatch{}), other.filters()...)}
	}
	all := chain(r.prefix.String(), here(&listenerv3.FilterChainMatch{}), other.filters()...)
	tls := tlsChain(decide, asHost)
	tls.Name, tls.FilterChainMatch = r.prefix.String()+"-tls", here(tls.FilterChainMatch)
	return []*listenerv3.FilterChain{tls, chain(r.prefix.String()+"-http", here(httpSpoken()), p.requests(name, in)...), all}
}

// outboundListener takes all redirected connections: to ports with a listener it hands them over, for the others
// it reads the name, for the record, and follows the policy for what nobody registered.
func outboundListener(in sidecarIn) *listenerv3.Listener {
	l := at(&listenerv3.Listener{
		Name:             virtualOutbound,
		UseOriginalDst:   wrapperspb.Bool(true),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		// Where the connection wanted to go comes first: what follows is cut short by a client that is silent. Ports that
		// have listeners inspect for themselves, after all of this. Those that always have are excepted here; the others are
		// not, so that a new one does not change this listener, which would drain its connections.
		ListenerFilters: append([]*listenerv3.ListenerFilter{originalDst()}, inspectors(alwaysListening...)...),
		FilterChains: append(toItself(virtualOutbound),
			tlsChain(catchAllDecide, ""),
			chain("http", httpSpoken(), in.requests(manager{stat: virtualOutbound, route: catchAllDecide, log: accesslog.SidecarHTTP})...),
		),
	}, outboundPort, in.ipv6)
	if !in.outside.AllowAny {
		// the table knows the cluster's own networks, so that nodes that come and go change no listener
		l.DefaultFilterChain = chain("tcp", nil, tunnel{table: catchAllDecide, stat: virtualOutbound}.filters()...)
		return detectWithin(l, in.detect)
	}
	l.DefaultFilterChain = chain("tcp", nil, proxy{stat: passthroughCluster, cluster: passthroughCluster, log: accesslog.SidecarTCP, policy: configOf(in.outside.By), revision: restRevision(in.outside)}.filter())
	l.FilterChains = append(l.FilterChains, madeUpChains(in)...)
	return detectWithin(l, in.detect)
}

// madeUpChains end what is sent to made-up addresses at ports where nothing is registered. What shows its name goes by
// the table like everything else, which knows them too.
func madeUpChains(in sidecarIn) []*listenerv3.FilterChain {
	there := func(match *listenerv3.FilterChainMatch) *listenerv3.FilterChainMatch {
		for _, p := range [...]netip.Prefix{host.MadeUp4, host.MadeUp6} {
			match.PrefixRanges = append(match.PrefixRanges, within(p.Addr().String(), p.Bits()).PrefixRanges...)
		}
		return match
	}
	tls := tlsChain(catchAllDecide, "")
	tls.Name, tls.FilterChainMatch = "made-up-tls", there(tls.FilterChainMatch)
	return []*listenerv3.FilterChain{
		tls,
		chain("made-up-http", there(httpSpoken()), in.requests(manager{stat: virtualOutbound, route: catchAllDecide, log: accesslog.SidecarHTTP})...),
		chain("made-up", there(&listenerv3.FilterChainMatch{}), proxy{stat: blackHoleCluster, cluster: blackHoleCluster, log: accesslog.SidecarTCP, policy: configOf(in.outside.By), revision: restRevision(in.outside)}.filter()),
	}
}

// toItself closes connections that were made to one of the ports that the proxy catches traffic at: passing them on
// would bring them back, without end.
func toItself(listener string) []*listenerv3.FilterChain {
	var chains []*listenerv3.FilterChain
	for _, port := range [...]uint32{outboundPort, inboundPort} {
		match := &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)}
		chains = append(chains, closed(fmt.Sprintf("%s-trafficloop-%d", listener, port), match))
	}
	return chains
}

// closed ends the connections that match.
func closed(name string, match *listenerv3.FilterChainMatch) *listenerv3.FilterChain {
	return chain(name, match, proxy{stat: blackHoleCluster, cluster: blackHoleCluster}.filter())
}

// inboundListener lets the pod's own traffic in, as it came: whoever connects to the pod gets to its app, and to nothing
// else. So it never looks for a listener of the original port (use_original_dst), for that finds those of the way out.
// That the original address is the pod's own is the redirection's to see (sidecar/redirect), since all pods of a
// class share this listener; but no address of loopback was ever meant by somebody outside.
func inboundListener(ipv6 bool) *listenerv3.Listener {
	return at(&listenerv3.Listener{
		Name:             virtualInbound,
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{originalDst()},
		FilterChains: append(toItself(virtualInbound),
			closed(virtualInbound+"-loopback", within("127.0.0.0", 8)),
			closed(virtualInbound+"-loopback6", within("::1", 128)),
			chain(virtualInbound, within("0.0.0.0", 0), proxy{stat: inboundPassthrough, cluster: inboundPassthrough}.filter()),
			chain(virtualInbound+"6", within("::", 0), proxy{stat: inboundPassthrough6, cluster: inboundPassthrough6}.filter()),
		),
	}, inboundPort, ipv6)
}

// inboundCluster connects to the app from an address that the redirection leaves alone.
func inboundCluster(name, from string) *clusterv3.Cluster {
	c := originalDestination(name, accesslog.RoleMesh)
	c.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: tcpAddress(from, 0).GetSocketAddress()}
	return c
}
