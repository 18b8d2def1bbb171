package outbound

import (
	"maps"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/httproute"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Host is what a sidecar's part is made from.
type Host struct {
	resolve.SidecarHost
	Trust envoy.TrustDomains
	Pods  bool // it is a host of the proxy of a node
}

// Part is one host's share of a sidecar's configuration: a virtual host for each port, the name that its DNS answers, and, where
// it does not leave by a gateway, its clusters.
func (h *Host) Part() *part.Part {
	p := part.New()
	p.Secrets = h.secrets()
	svc := h.Service
	for _, port := range svc.Ports {
		if !h.Takes(port) {
			if port.Protocol != registry.UDP { // a gateway's own: its name and addresses are no pattern's and in nobody's range
				p.Ports = append(p.Ports, useOf(port, h.Foreign))
				p.Resources = append(p.Resources, unclaimedVhost(h.domains(port), port.Number, h.Unclaimed))
			}
			continue
		}
		p.Ports = append(p.Ports, useOf(port, h.Foreign))
		for _, r := range h.Ranges(port) {
			p.Ranges = append(p.Ranges, part.RangeUse{Port: port.Number, Prefix: r, Host: svc.Host, TLS: port.Protocol == registry.TLS})
		}
		routes := h.Routes(port)
		p.Resources = append(p.Resources, h.vhost(port, routes))
		p.Resources = append(p.Resources, h.wrapped(routes)...)
		if h.Direct(port) {
			p.Resources = append(p.Resources, h.clusters(port)...)
		}
	}
	for _, port := range h.ShutPorts {
		p.Resources = append(p.Resources, shutVhost(svc.Host, port, h.Unclaimed))
	}
	p.Gateways, p.Pods = h.legs(), h.podWaypoints()
	if n, ok := nameOf(svc, h.Aliases); ok {
		p.Resources = append(p.Resources, n)
	}
	return p
}

// legs are the ways to gateways that the host's routes may take.
func (h *Host) legs() (out []part.GatewayRef) {
	add := func(svc *registry.Service) {
		if svc != nil && !svc.Exit.IsZero() && !slices.Contains(out, part.LegOf(svc)) {
			out = append(out, part.LegOf(svc))
		}
	}
	if h.ByGateway() {
		add(h.Service)
	}
	if h.Led != nil {
		for _, name := range slices.Sorted(maps.Keys(h.Led.Ends)) {
			add(h.Led.Ends[name].Service)
		}
	}
	return out
}

func useOf(port registry.Port, foreign bool) part.PortUse {
	return part.PortUse{Number: port.Number, Opaque: port.Protocol == registry.TCP && !foreign, Foreign: foreign}
}

// shutVhost keeps a host, on a port at which it is not registered, from a pattern of another namespace: it goes where
// names go that nobody registered.
func shutVhost(host string, port uint32, rest resolve.OutboundPolicy) *resource.Resource {
	asked := askAgain(Listening{Number: port, Ranges: []part.RangeUse{{Port: port}}}) // whether there are ranges, or names are read, the listener knows
	return unclaimedVhost([]string{host}, port, rest, asked...)
}

// unclaimedVhost treats names and addresses as what nobody registered.
func unclaimedVhost(domains []string, port uint32, rest resolve.OutboundPolicy, asked ...*routev3.Route) *resource.Resource {
	vh := &routev3.VirtualHost{Name: wire.VhostName(wire.RouteName(port), domains[0]), Domains: domains, Routes: lastResort(rest, asked...).Routes}
	return envoy.Seal(resource.VirtualHost, vh.Name, vh)
}

// vhost is the row of a port's table for the host. Requests and tunnels both find it: by Host, by SNI, or,
// where neither can be read, by address.
func (h *Host) vhost(port registry.Port, routes []resolve.Route) *resource.Resource {
	vh := &routev3.VirtualHost{Name: wire.VhostName(wire.RouteName(port.Number), h.Service.Host), Domains: h.domains(port), Routes: h.podRows(port)}
	for i := range routes {
		vh.Routes = append(vh.Routes, h.rows(port, &routes[i])...)
	}
	return envoy.Seal(resource.VirtualHost, vh.Name, envoy.RefuseOddHosts(vh))
}

// domains are what finds the host in a port's table; its own name is the first.
func (h *Host) domains(port registry.Port) []string {
	out := append([]string{h.Service.Host}, h.Names...)
	for _, ip := range h.Addresses(port) {
		out = append(out, addressDomain(ip))
	}
	return out
}

// addressDomain is an address as the Host of a request has it.
func addressDomain(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	return "[" + ip.String() + "]"
}

// rows renders one of the host's routes.
func (h *Host) rows(port registry.Port, r *resolve.Route) []*routev3.Route {
	switch {
	case r.Action == resolve.Unrouted:
		return []*routev3.Route{envoy.WithRevision(asked(unrouted(r), r, h), r.Revision)}
	case r.HTTP != nil && r.Action != resolve.Close:
		return []*routev3.Route{h.userRequests(port, r)}
	case r.L4 != nil && r.Action != resolve.Close:
		return h.userConnections(r)
	}
	row := h.route(port, r)
	envoy.WithRevision(row, r.Revision)
	if r.Match != nil && r.Action == resolve.Close {
		row.Match = httproute.Match(r.Match)
		if h.joined() {
			httproute.FailAll(row)
		}
	}
	httproute.Within(row.Match, r.L4)
	if h.RegisteredBySeveral && r.Action == resolve.Forward && r.For == resolve.Requests && h.ByGateway() {
		row.RequestHeadersToAdd = append(row.RequestHeadersToAdd, registeredIn(h.Service)) // an answer says it in the tunnel's name
	}
	if h.Pods && waits(r) {
		return []*routev3.Route{envoy.WaitLonger(), row}
	}
	return []*routev3.Route{row}
}

// route renders one of the host's own routes.
func (h *Host) route(port registry.Port, r *resolve.Route) *routev3.Route {
	by := envoy.ObjectRef(r.By)
	switch {
	case r.Action == resolve.Close && r.For == resolve.Requests:
		return farend.ClosedRequests(*r.Closed)
	case r.Action == resolve.Close:
		return farend.ClosedAnswer(*r.Closed)
	case r.Action == resolve.WrongProtocol && r.For == resolve.Requests:
		return envoy.Refuse(wire.WrongProtocolRoute, envoy.MatchAnyRequest(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as "+string(port.Protocol)+"\n", envoy.DecidedByMetadata(by))
	case r.Action == resolve.WrongProtocol:
		return asked(envoy.ClosedAnswer(wire.WrongProtocolRoute, by, r.Revision).Row(envoy.MatchQuestion("")), r, h)
	case r.Action == resolve.NotRegistered:
		return asked(askForHeld(port.Number), r, h)
	case r.For == resolve.Requests:
		return h.leaving(h.requests(port))
	default:
		a := h.tunnel(port)
		if r.FoundBy == resolve.ByAddress || r.FoundBy == resolve.Nameless {
			a.By = wire.ByAddress
		}
		return h.leaving(asked(a.Row(envoy.MatchQuestion("")), r, h))
	}
}

// leaving marks one of the host's own rows. What goes to a waypoint leaves from here, too, as far as policies are asked: the gateway behind that knows
// another client.
func (h *Host) leaving(row *routev3.Route) *routev3.Route {
	if h.Waypoint != nil && h.Service.External {
		return envoy.MarkOutside(row, outsideOf(h.Service), h.Service.Host, 0)
	}
	return leaving(row, h.Service, 0)
}

// leaving marks a row whose traffic leaves the mesh straight from the sidecar, and, where a route says which, to what port.
func leaving(row *routev3.Route, to *registry.Service, port uint32) *routev3.Route {
	if to.External && to.Exit.IsZero() {
		return envoy.MarkOutside(row, outsideOf(to), to.Host, port)
	}
	return row
}

// outsideOf is how a service outside is marked.
func outsideOf(svc *registry.Service) string {
	if svc.Unregistered {
		return wire.LetOutByPolicy
	}
	return wire.Leaves
}

// tunnel is the answer to connections that go on to the host.
func (h *Host) tunnel(port registry.Port) envoy.Answer {
	if h.Waypoint != nil {
		return envoy.Answer{Route: "default", Cluster: wire.ClusterName(port.Number, h.Service.Host), Revision: h.Service.RevisionOf(port)}
	}
	return h.tunnelTo(h.Service, port, h.RegisteredBySeveral, "")
}

// tunnelTo is the answer to connections that go on to a service.
func (h *Host) tunnelTo(svc *registry.Service, port registry.Port, contested bool, subset string) envoy.Answer {
	if !svc.Exit.IsZero() {
		return TowardsGateway(svc, port, contested)
	}
	cluster := wire.SubsetName(port.Number, subset, svc.Host)
	if svc.Wildcard() && farend.ResolvesRequestName(svc) {
		return farend.WildcardAnswer(patternsInside, cluster, svc, port)
	}
	return envoy.Answer{Route: "default", Cluster: cluster, Revision: svc.RevisionOf(port), LoggedBy: loggedElsewhereBy(svc)}
}

// loggedElsewhereBy says who logs what gets to a service: the gateway that it leaves by, or pods, where there are no other endpoints. What somebody wrote into an
// entry, or beside a Service, may be anywhere.
func loggedElsewhereBy(svc *registry.Service) string {
	switch {
	case !svc.Exit.IsZero():
		return envoy.LoggedAtGateway
	case svc.HasSelector:
		return envoy.LoggedAtPod
	default:
		return "" // nobody else
	}
}

// requests is the route of requests that go on: to the host's own cluster, or to its gateway, under the name and port that it
// was registered with. What the gateway does with them is its own decision.
func (h *Host) requests(port registry.Port) *routev3.Route {
	svc := h.Service
	if h.Waypoint != nil {
		return h.requestsToWaypoint(port)
	}
	if svc.Exit.IsZero() {
		action := farend.WithHashPolicy(envoy.ToClusterRetried(wire.ClusterName(port.Number, svc.Host)), h.Rule.TrafficFor(port.Number))
		row := envoy.EnableFilters(farend.ConnectByName(envoy.Route("default", envoy.MatchAnyRequest(), action), svc, port.TargetPort), farend.ProtocolTranslations(port)...)
		if h.Mutual(port) != resolve.MutualNever {
			envoy.WithoutHTTP11Only(row)
		}
		return envoy.MarkLoggedBy(row, loggedElsewhereBy(svc))
	}
	action := envoy.ToClusterRetried(part.LegOf(svc).Cluster())
	if as := asRegistered(svc, port); as != "" {
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: as}
	}
	return envoy.MarkLoggedBy(envoy.EnableFilters(envoy.Route("default", envoy.MatchAnyRequest(), action), farend.ProtocolTranslations(port)...), loggedElsewhereBy(svc))
}

// namedBy matches tunnels that a TLS name asked for, and not those that have an address for want of one.
func namedBy(host string) *routev3.HeaderMatcher {
	if host[0] == '*' {
		return &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: envoy.HeaderMatches(anAddress), InvertMatch: true}
	}
	return &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: host + ":"}, IgnoreCase: true,
		},
	}}
}

// Endpoints are those of a Service, one resource a port: of others they are in their clusters' parts.
func (h *Host) Endpoints(list []registry.Endpoint) (out []*resource.Resource) {
	if !h.Service.Tabled() || h.Service.Headless() || h.Waypoint != nil {
		return nil
	}
	for _, port := range h.Service.Ports {
		if h.Takes(port) && h.Direct(port) {
			for _, part := range h.Rule.SubsetsAndAll() {
				way := farend.Options{Near: h.Near, Mutual: farend.Mutual{To: h.Mutual(port)}, Traffic: h.Rule.SubsetTraffic(part.Name, port.Number)}
				out = append(out, farend.SealLoadAssignment(wire.SubsetName(port.Number, part.Name, h.Service.Host), port, way.Reaching(h.Service, port, part.Of(list))...))
			}
		}
	}
	return out
}

// clusters are the host's own of one port, with their endpoints where they are written down: a cluster for each part.
func (h *Host) clusters(port registry.Port) (out []*resource.Resource) {
	if h.Waypoint != nil {
		return h.toWaypoint(port)
	}
	reach := &resolve.ReachedDestination{Rule: h.Rule, Restrictions: h.Restrictions}
	for _, part := range h.Rule.SubsetsAndAll() {
		name := wire.SubsetName(port.Number, part.Name, h.Service.Host)
		mutual := farend.MutualTo(h.Mutual(port), h.Service, port, part.Name, h.MeshTLS, h.Rule.TLSFor(port.Number), h.Trust)
		out = append(out, clusterOf(name, h.Service, port, h.Rule.TLSFor(port.Number), h.Restrictions.Given[port.Number], reach, part.Name, mutual, h)...)
	}
	return out
}

// registeredIn tells the gateway whose registration is meant.
func registeredIn(svc *registry.Service) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: wire.HeaderRegisteredIn, Value: svc.Namespace},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
