package translate

import (
	"net/netip"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// nameTTL is for how long, in seconds, an app may keep a made-up address.
const nameTTL = 60

// part is one host's share of a sidecar's configuration: a virtual host for each port, the name that its DNS answers, and, where
// it does not leave by a gateway, its clusters.
func (h *atSidecar) part() *part {
	p := &part{secrets: h.Far.Secrets()}
	svc := h.Service
	for _, port := range svc.Ports {
		if !h.Takes(port) {
			continue
		}
		p.ports = append(p.ports, useOf(port, h.Foreign))
		for _, r := range h.Ranges(port) {
			p.ranges = append(p.ranges, rangeUse{port: port.Number, prefix: r, host: svc.Host, tls: port.Protocol == registry.TLS})
		}
		p.resources = append(p.resources, h.vhost(port))
		if h.Direct(port) {
			p.resources = append(p.resources, h.cluster(port)...)
		}
	}
	for _, port := range h.Shut {
		p.resources = append(p.resources, shutVhost(svc.Host, port, h.Rest))
	}
	if !svc.Exit.IsZero() {
		p.gateways = []leg{legOf(svc)}
	}
	if n, ok := nameOf(svc, h.Aliases); ok {
		p.resources = append(p.resources, n)
	}
	return p
}

func useOf(port registry.Port, foreign bool) portUse {
	return portUse{number: port.Number, opaque: port.Protocol == registry.TCP && !foreign, foreign: foreign}
}

// shutVhost keeps a host, on a port at which it is not registered, from a pattern of another namespace: it goes where
// names go that nobody registered.
func shutVhost(host string, port uint32, rest resolve.Rest) *Resource {
	asked := askAgain(listening{number: port, ranges: []rangeUse{{port: port}}}) // whether there are ranges, or names are read, the listener knows
	vh := &routev3.VirtualHost{Name: vhostName(routeName(port), host), Domains: []string{host}, Routes: lastResort(rest, asked...).Routes}
	return seal(VirtualHost, vh.Name, vh)
}

// vhost is the row of a port's table for the host. Requests and tunnels both find it: by Host, by SNI, or,
// where neither can be read, by address.
func (h *atSidecar) vhost(port registry.Port) *Resource {
	vh := &routev3.VirtualHost{
		Name:    vhostName(routeName(port.Number), h.Service.Host),
		Domains: append([]string{h.Service.Host}, h.Names...),
	}
	for _, ip := range h.Addresses(port) {
		vh.Domains = append(vh.Domains, addressDomain(ip))
	}
	routes := h.Routes(port)
	for i := range routes {
		r := h.route(port, &routes[i])
		revise(r, routes[i].Revision)
		if h.Contested && routes[i].Does == resolve.Forward && routes[i].For == resolve.Requests && !h.Service.Exit.IsZero() {
			named(r, h.Service) // an answer says it in the tunnel's name
		}
		vh.Routes = append(vh.Routes, r)
	}
	return seal(VirtualHost, vh.Name, vh)
}

// addressDomain is an address as the Host of a request has it.
func addressDomain(ip netip.Addr) string {
	if ip.Is4() {
		return ip.String()
	}
	return "[" + ip.String() + "]"
}

// route renders one of the host's routes.
func (h *atSidecar) route(port registry.Port, r *resolve.Route) *routev3.Route {
	by := configOf(r.By)
	switch {
	case r.Does == resolve.Close && r.For == resolve.Requests:
		return closedRequests(*r.Closed)
	case r.Does == resolve.Close:
		return closedAnswer(*r.Closed)
	case r.Does == resolve.WrongProtocol && r.For == resolve.Requests:
		return refuse(wrongProtocolRoute, anyRequest(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as "+string(port.Protocol)+"\n", decidedBy(by))
	case r.Does == resolve.WrongProtocol:
		return nothing(wrongProtocolRoute, by, r.Revision).row(asksAbout(""))
	case r.Does == resolve.NotRegistered:
		return asked(restRow(h.Rest, h.Rest.ForAddress()), r, h)
	case r.For == resolve.Requests:
		return h.requests(port)
	default:
		a := h.tunnel(port)
		if r.Asked == resolve.ByAddress || r.Asked == resolve.Nameless {
			a.by = accesslog.ByAddress
		}
		return asked(a.row(asksAbout("")), r, h)
	}
}

// asked keeps a row to connections that asked in a route's way.
func asked(row *routev3.Route, r *resolve.Route, h *atSidecar) *routev3.Route {
	switch r.Asked {
	case resolve.ByAddress, resolve.Nameless:
		row.Match.Headers = []*routev3.HeaderMatcher{askedAgain(r.Asked == resolve.Nameless)}
	case resolve.ByHostName:
		row.Match.Headers = []*routev3.HeaderMatcher{namedBy(h.Service.Host)}
	case resolve.ByName:
		row.Match.Headers = []*routev3.HeaderMatcher{namedBy("*")}
	}
	return row
}

// tunnel is the answer to connections that go on.
func (h *atSidecar) tunnel(port registry.Port) answer {
	svc := h.Service
	if !svc.Exit.IsZero() {
		return towardsGateway(svc, port, h.Contested)
	}
	cluster := ClusterName(port.Number, svc.Host)
	if svc.Wildcard() && lookedUp(svc) {
		return inPatterns(patternsInside, cluster, svc, port)
	}
	return answer{route: "default", cluster: cluster, revision: svc.RevisionOf(port)}
}

// requests is the route of requests that go on: to the host's own cluster, or to its gateway, under the name and port that it
// was registered with. What the gateway does with them is its own decision.
func (h *atSidecar) requests(port registry.Port) *routev3.Route {
	svc := h.Service
	if svc.Exit.IsZero() {
		action := hashed(retried(ClusterName(port.Number, svc.Host)), h.Rule.TrafficFor(port.Number))
		return through(dialled(route("default", anyRequest(), action), svc, port.TargetPort), translations(port)...)
	}
	action := retried(legOf(svc).cluster())
	if !svc.Wildcard() {
		as := hostPort(svc.Host, port.Number)
		if port.Number == 80 {
			as = svc.Host
		}
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: as}
	}
	return through(route("default", anyRequest(), action), translations(port)...)
}

// towardsGateway says to the gateway which host and port a tunnel is for. A pattern's host is the one that the client named.
func towardsGateway(svc *registry.Service, port registry.Port, contested bool) answer {
	a := answer{route: "default", cluster: legOf(svc).cluster(), told: toldAtGateway, alpn: alpnTCP}
	subset := ""
	if contested {
		subset = svc.Namespace
	}
	toSubset, toHost := tunnelName(port.Number, subset)
	switch {
	case svc.Wildcard():
		a.sniOf, a.alpn = toHost, alpnTLS
	case port.Protocol == registry.TLS:
		a.sni, a.alpn = toHost+svc.Host, alpnTLS
	case svc.Dialled():
		a.dialled, a.host = toSubset+"~", "_."+svc.Host
	default:
		a.sni = toHost + svc.Host
	}
	return a
}

// lookedUp says whether a pattern's cluster connects to the name that a client says, rather than to endpoints or where the
// client goes (endCluster).
func lookedUp(svc *registry.Service) bool {
	return svc.Resolution != registry.Static && len(svc.Endpoints) == 0 && !(svc.Resolution == registry.None && svc.Exit.IsZero())
}

// inPatterns hands a tunnel to a pattern's host to the internal listener where names are looked up.
func inPatterns(listener, cluster string, svc *registry.Service, port registry.Port) answer {
	return answer{route: "default", cluster: listener, revision: svc.RevisionOf(port), told: toldInside, behind: cluster, port: routeName(port.TargetPort)}
}

// namedBy matches tunnels that a TLS name asked for, and not those that have an address for want of one.
func namedBy(host string) *routev3.HeaderMatcher {
	if host[0] == '*' {
		return &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: matches(anAddress), InvertMatch: true}
	}
	return &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: host + ":"}, IgnoreCase: true,
		},
	}}
}

// dialled says which name and port a cluster of a wildcard connects to: the request's own, which is looked up first.
// Other clusters know theirs.
func dialled(r *routev3.Route, svc *registry.Service, port uint32) *routev3.Route {
	if !svc.Wildcard() {
		return r
	}
	return through(withState(r, state(stateDynamicPort, routeName(port), stay)), filterNames)
}

// translations are the filters that turn requests of a port into others: gRPC-Web, of browsers, into gRPC.
func translations(port registry.Port) []string {
	if port.Protocol == registry.HTTP2 {
		return []string{filterWeb}
	}
	return nil
}

// cluster is the host's own of one port, with its endpoints where they are written down.
func (h *atSidecar) cluster(port registry.Port) []*Resource {
	svc := h.Service
	if len(h.Far.Refused) > 0 {
		left := *svc
		left.Endpoints = led(svc.Endpoints, h.Far)
		svc = &left
	}
	role := accesslog.RoleExternal
	if !svc.External {
		role = accesslog.RoleMesh
	}
	way := towards{tls: h.Rule.TLSFor(port.Number), given: h.Far.Given[port.Number], connect: h.Rule.ConnectTimeoutFor(port.Number, h.Connect), traffic: h.Rule.TrafficFor(port.Number)}
	return endCluster(Cluster, ClusterName(port.Number, svc.Host), svc, port, way, reviseOpaque(metadata(role, configOf(svc.SourceOf(port))), svc, port))
}

// towards is how a far end is spoken to.
type towards struct {
	tls     *registry.TLSSettings // what the client's own protocol is wrapped in; nil for nothing
	given   registry.Given        // what of a Secret that needs
	connect time.Duration         // how long connecting may take
	traffic registry.Traffic
}

// endCluster connects to the host itself, by sidecar or gateway; kind says how it is fetched.
func endCluster(kind Type, clusterName string, svc *registry.Service, port registry.Port, way towards, md *corev3.Metadata) []*Resource {
	var c *clusterv3.Cluster
	var out []*Resource
	switch {
	case svc.Headless():
		c = originalDestination(clusterName, accesslog.RoleMesh)
		c.Metadata = md
	case svc.Resolution == registry.Static:
		c = byDiscovery(clusterName, md)
		out = append(out, seal(Endpoints, clusterName, load(clusterName, port, svc.Endpoints)))
	case len(svc.Endpoints) > 0:
		c = byNames(clusterName, md, load(clusterName, port, svc.Endpoints))
	case !svc.Wildcard() && (svc.Resolution == registry.DNS || !svc.Exit.IsZero()):
		c = byNames(clusterName, md, load(clusterName, port, []registry.Endpoint{{Address: svc.Host}}))
	case svc.Resolution == registry.None && svc.Exit.IsZero():
		c = originalDestination(clusterName, accesslog.RoleExternal)
		c.Metadata = md
	default:
		c = byName(clusterName, md)
	}
	connecting(c, way.connect)
	http2 := port.Protocol == registry.HTTP2 || (port.Protocol == registry.HTTP && way.traffic.OverHTTP2())
	if http2 {
		c.TypedExtensionProtocolOptions = http2Options()
	}
	if tls := way.tls; originates(port, tls) {
		c.TransportSocket = originateTLS(svc.Host, svc.SANs, tls, way.given, http2)
		if svc.Wildcard() && tls.SNI == "" {
			c.TypedExtensionProtocolOptions = nameFromRequest(http2)
		}
	}
	use(c, way.traffic, port)
	return append(out, seal(kind, clusterName, c))
}

// originates says whether what an app speaks at a port is wrapped in TLS.
func originates(port registry.Port, tls *registry.TLSSettings) bool {
	return tls != nil && (tls.Mode == registry.TLSSimple || tls.Mode == registry.TLSMutual) && port.Protocol != registry.TLS
}

// nameOf is what the pod's DNS says about a host of an entry: its made-up addresses, or those that the user wrote. A name without an address, as all of a wildcard have, is known for one that others may be asked about. Those of
// the cluster need no mention for that.
func nameOf(svc *registry.Service, aliases []string) (*Resource, bool) {
	if strings.HasSuffix(svc.Host, "."+clusterDomain) {
		return nil, false
	}
	n := name.Name{Host: svc.Host, TTL: nameTTL}
	if !svc.Wildcard() {
		if svc.VIP4.IsValid() {
			n.Addresses = append(n.Addresses, svc.VIP4, svc.VIP6)
		}
		for _, a := range svc.Addresses {
			if a.IsSingleIP() {
				n.Addresses = append(n.Addresses, a.Addr())
			}
		}
	}
	if len(n.Addresses) == 0 {
		n.TTL = 0 // it is the answer's
	} else {
		n.Aliases = aliases
	}
	return sealBytes(Name, n.Host, n.Marshal()), true
}
