package outbound

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// base is everything of a sidecar that is not about single hosts: one listener, one internal listener and
// one route table for each port in use, the same for all other ports, and the way in.
func base(in Inputs) []*resource.Resource {
	out := []*resource.Resource{
		envoy.SealCluster(envoy.BlackHole()),
		envoy.SealCluster(envoy.WithConnectTimeout(envoy.OriginalDestination(wire.PassthroughCluster, wire.RolePassthrough), in.Connect)),
		envoy.SealCluster(envoy.InternalCluster(patternsInside)),
		envoy.Seal(resource.Listener, patternsInside, patternsListener(in.Ends)),
		envoy.Seal(resource.Route, wire.CatchAllDecide, in.led(envoy.RouteTable(wire.CatchAllDecide, lastResort(in.Outside), envoy.InlineHosts{}, true))),
	}
	out = append(out, in.redirectListeners()...)
	out = append(out, in.questions()...)
	if in.Fetch > 0 {
		out = append(out, envoy.FetchListeners()...)
	}
	if in.Ends {
		tables := ""
		if in.Pods {
			tables = envoy.AllTables
		}
		out = append(out, envoy.LeavingListener(tables)...)
	}
	if in.Outside.Dynamic {
		out = append(out, envoy.SealCluster(byHostOfRequest()))
	}
	for _, g := range in.Gateways {
		out = append(out, g.Way(in.Connect)...)
	}
	for _, p := range in.Ports {
		name := fmt.Sprintf("0.0.0.0_%d", p.Number)
		out = append(out, in.asked(p)...)
		if !in.Pods {
			out = append(out, envoy.Seal(resource.Listener, name, portListener(name, p, in)))
		}
		if in.Fetch > 0 {
			out = append(out, envoy.ReentryListener(wire.AgainName(p.Number), in.requests(envoy.HCM{Stat: wire.AgainName(p.Number), Route: wire.RouteName(p.Number), Again: true})...)...)
		}
	}
	return out
}

// questions are where they are taken, and those answered that are about ports without a table of their own.
func (in Inputs) questions() []*resource.Resource {
	if in.Pods {
		return slices.Concat([]*resource.Resource{
			envoy.SealCluster(envoy.QuestionCluster(envoy.AllTables)),
			envoy.Seal(resource.Listener, envoy.AllTables, envoy.TableListener(envoy.AllTables, "", envoy.AskedOfPod)),
			envoy.ScopedRoutes(wire.CatchAllDecide),
		}, in.podsTable(), in.silent())
	}
	out := append(envoy.QuestionListeners(),
		envoy.SealCluster(envoy.QuestionCluster(wire.CatchAllDecide)),
		envoy.Seal(resource.Listener, wire.CatchAllDecide, envoy.TableListener(wire.CatchAllDecide, wire.CatchAllDecide, envoy.AskedOfPod)),
	)
	if in.Reconnects {
		out = append(out, in.silent()...)
	}
	return out
}

// led is a table as it is where a header may lead to it: nobody behind sees that.
func (in Inputs) led(table *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	if in.Pods {
		return envoy.StripTableHeader(table)
	}
	return table
}

// asked is a port's table, and where it is asked.
func (in Inputs) asked(p Listening) []*resource.Resource {
	if in.Pods {
		return append(envoy.PlaceholderRow(p.route(), in.Hosts), envoy.SealCluster(envoy.SharedQuestionCluster(p.decide())), envoy.ScopedRoutes(p.route()), envoy.Seal(resource.Route, p.route(), in.led(in.table(p))))
	}
	return append(envoy.PlaceholderRow(p.route(), in.Hosts),
		envoy.SealCluster(envoy.QuestionCluster(p.decide())),
		envoy.Seal(resource.Listener, p.decide(), envoy.TableListener(p.decide(), p.route(), envoy.AskedOfPod)),
		envoy.Seal(resource.Route, p.route(), in.table(p)),
	)
}

// redirectListeners are those that the kernel hands connections to, and what belongs to them.
func (in Inputs) redirectListeners() []*resource.Resource {
	if in.Pods {
		return in.podDoors()
	}
	return append(in.Inbound.Resources(), envoy.Seal(resource.Listener, wire.VirtualOutbound, outboundListener(in)))
}

// table is a port's route table.
func (in Inputs) table(p Listening) *routev3.RouteConfiguration {
	name := p.route()
	asked := append(askAgain(p), answerHeld(in.Outside))
	if in.Pods && slices.Contains(AlwaysListening, p.Number) { // whoever connects there speaks first, whatever the address
		asked = append(asked, envoy.WaitLonger())
	}
	last := lastResort(in.Outside, asked...)
	if in.Fetch == 0 {
		return envoy.RouteTable(name, last, in.Hosts, true)
	}
	return envoy.MarkFetchedOnUse(envoy.RouteTable(name, afterFetching(p.Number, last), in.Hosts, true), in.Fetch, in.Named)
}

// Way is the leg to an egress gateway, over mTLS: requests share an HTTP/2 connection, an upgrade has an
// HTTP/1.1 connection to itself (alone), and each tunnel a plain one, whose TLS name says whereto it wants (answer).
func (g Gateway) Way(connect time.Duration) []*resource.Resource {
	name := g.Cluster()
	c := envoy.WithConnectTimeout(envoy.EDSCluster(name, envoy.Metadata(wire.RoleGateway, "")), connect)
	c.TypedExtensionProtocolOptions = envoy.MeshProtocol()
	c.TransportSocket = envoy.MeshClientTLS(resolve.SNI(registry.GatewayPort, "", g.Ref.Host()), g.Identities)
	return []*resource.Resource{envoy.SealCluster(c), envoy.Seal(resource.Endpoints, name, farend.LoadAssignment(name, g.Port, g.Endpoints...))}
}

// portListener takes the connections of one port. It does not bind: virtualOutbound hands them over. Requests are
// decided by their Host in the port's table; the same table is asked about TLS connections by their SNI, and about the rest by
// its address.
func portListener(name string, p Listening, in Inputs) *listenerv3.Listener {
	l := envoy.BindAll(&listenerv3.Listener{
		Name:             name,
		BindToPort:       wrapperspb.Bool(false),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
	}, p.Number, in.IPv6)
	decide := p.decide()
	if !p.Opaque {
		l.ListenerFilters = in.inspectors()
		if in.waits(p) {
			l.ListenerFilters = append(l.ListenerFilters, envoy.MarkHeard())
		}
		l.FilterChains = []*listenerv3.FilterChain{
			in.tlsChain(decide, ""),
			envoy.FilterChain("http", envoy.MatchHTTP(), p.requests(name, in)...),
		}
		envoy.WithDetectionTimeout(l, in.detect(p.Number))
	}
	for _, r := range p.Ranges {
		l.FilterChains = append(l.FilterChains, p.rangeChains(name, r, in)...)
	}
	byAddress := tunnel{table: decide, stat: "outbound_" + name, mesh: in.Mesh, told: in.Ends, waits: in.waits(p)}
	for _, made := range [...]netip.Prefix{host.MadeUp4, host.MadeUp6} {
		if !slices.ContainsFunc(p.Ranges, func(r part.RangeUse) bool { return r.Prefix.Overlaps(made) }) {
			continue // the usual case: the default does it
		}
		l.FilterChains = append(l.FilterChains, envoy.FilterChain(made.String(), envoy.MatchRange(made.Addr().String(), made.Bits()), byAddress.filters()...))
	}
	l.DefaultFilterChain = envoy.FilterChain("tcp", nil, byAddress.filters()...)
	return l
}

// detect is how long a port's listener waits for a client's first bytes. Whoever connects to one of the web's ports speaks first: he is
// waited for longer, or a program that is slow to begin would be closed as one that speaks neither HTTP nor TLS.
func (in Inputs) detect(port uint32) time.Duration {
	if slices.Contains(AlwaysListening, port) {
		return in.DetectWeb
	}
	return in.Detect
}

// waits says whether clients of a sidecar that have said nothing at a port for that long are waited for further where they speak first. At the port of TLS whoever connects shakes hands, also for a pool, and its
// listener waits for long by itself; its table takes questions in its own way, and not by the internal listener's detour.
func (in Inputs) waits(p Listening) bool {
	return in.Reconnects && !p.Opaque && !envoy.AskedStraight(p.decide())
}

// requests reads requests, and follows the port's table.
func (p Listening) requests(name string, in Inputs) []*listenerv3.Filter {
	return in.requests(envoy.HCM{Stat: "outbound_" + name, Route: p.route(), Fetch: in.Fetch > 0})
}

// requests reads and logs requests, and lets the rows for what nobody registered know where one was sent to.
func (in Inputs) requests(m envoy.HCM) []*listenerv3.Filter {
	m.Log, m.Mesh, m.Ends = wire.SidecarHTTP, in.Mesh, in.Ends
	return []*listenerv3.Filter{envoy.SetFilterState(envoy.State(wire.StateOriginalDst, "%DOWNSTREAM_LOCAL_ADDRESS%", envoy.NotShared)), m.Filter()}
}

// rangeChains are for what goes to a range of addresses. A single address that somebody wrote comes before the range
// that it is in; what the table does not know by it comes again as the range's host. In a TLS service's range, names come
// before both, and what is not TLS is not the service's.
func (p Listening) rangeChains(name string, r part.RangeUse, in Inputs) []*listenerv3.FilterChain {
	here := func(match *listenerv3.FilterChainMatch) *listenerv3.FilterChainMatch {
		match.PrefixRanges = envoy.MatchRange(r.Prefix.Addr().String(), r.Prefix.Bits()).PrefixRanges
		return match
	}
	decide, asHost := p.decide(), wire.HostPort(r.Host, r.Port)
	other := tunnel{table: decide, stat: "outbound_" + name, mesh: in.Mesh, told: in.Ends, waits: r.TLS && in.waits(p)}
	if !r.TLS {
		other.asRange = asHost
		return []*listenerv3.FilterChain{envoy.FilterChain(r.Prefix.String(), here(&listenerv3.FilterChainMatch{}), other.filters()...)}
	}
	all := envoy.FilterChain(r.Prefix.String(), here(&listenerv3.FilterChainMatch{}), other.filters()...)
	tls := in.tlsChain(decide, asHost)
	tls.Name, tls.FilterChainMatch = r.Prefix.String()+"-tls", here(tls.FilterChainMatch)
	return []*listenerv3.FilterChain{tls, envoy.FilterChain(r.Prefix.String()+"-http", here(envoy.MatchHTTP()), p.requests(name, in)...), all}
}

// outboundListener takes all redirected connections: to ports with a listener it hands them over, for the others
// it reads the name, for the record, and follows the policy for what nobody registered.
func outboundListener(in Inputs) *listenerv3.Listener {
	l := envoy.BindAll(&listenerv3.Listener{
		Name:             wire.VirtualOutbound,
		UseOriginalDst:   wrapperspb.Bool(true),
		TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		// Where the connection wanted to go comes first: what follows is cut short by a client that is silent. Ports that
		// have listeners inspect for themselves, after all of this. Those that always have are excepted here; the others are
		// not, so that a new one does not change this listener, which would drain its connections.
		ListenerFilters: append([]*listenerv3.ListenerFilter{envoy.OriginalDst()}, in.inspectors(AlwaysListening...)...),
		FilterChains: append(envoy.LoopGuardChains(wire.VirtualOutbound, in.nowhere()),
			in.tlsChain(wire.CatchAllDecide, ""),
			envoy.FilterChain("http", envoy.MatchHTTP(), in.requests(envoy.HCM{Stat: wire.VirtualOutbound, Route: wire.CatchAllDecide})...),
		),
	}, wire.OutboundPort, in.IPv6)
	// the table knows the cluster's own networks, so that nodes that come and go change no listener
	l.DefaultFilterChain = envoy.FilterChain("tcp", nil, tunnel{table: wire.CatchAllDecide, stat: wire.VirtualOutbound, mesh: in.Mesh, told: in.Ends}.filters()...)
	return envoy.WithDetectionTimeout(l, in.Detect)
}

// nowhere ends connections that no table is asked about, and says which object stands behind what nobody registered.
func (in Inputs) nowhere() envoy.TCPProxy {
	out := envoy.ClosingTCPProxy()
	out.Log, out.Policy, out.Revision = wire.SidecarTCP, envoy.ObjectRef(in.Outside.By), unregisteredRevision(in.Outside)
	return out
}

// afterFetching makes of a table's last row one by which what comes asks first for the row that it is for, and is nobody's only when
// there is none. Questions come again with a header that nobody else's request can have, and requests by a listener of their own.
func afterFetching(port uint32, last *routev3.VirtualHost) *routev3.VirtualHost {
	for _, r := range last.Routes {
		if !envoy.IsAnswer(r) {
			envoy.OnlyReentered(r)
		}
	}
	last.Routes = append([]*routev3.Route{envoy.FetchQuestionRoute(wire.DecideName(port))}, last.Routes...)
	last.Routes = append(last.Routes, envoy.FetchRequestRoute(wire.RouteName(port), wire.AgainName(port)))
	return last
}
