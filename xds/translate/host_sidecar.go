package translate

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// nameTTL is for how long, in seconds, an app may keep a made-up address.
const nameTTL = 60

// sidecarHost is one host's share of a sidecar's configuration: a virtual host for each port, the name that its
// DNS answers, and, where it does not leave by a gateway, its clusters. An egress gateway's own port is left out: the
// base has the cluster of that name, and nothing but tunnels goes there.
func sidecarHost(svc *registry.Service, rule *registry.Rule, f foundAs, connect time.Duration) *part {
	p := &part{}
	for _, port := range svc.Ports {
		if port.Protocol == registry.UDP || (f.exit && port.Number == GatewayPort) {
			continue
		}
		p.ports = append(p.ports, useOf(port, f.foreign))
		p.ranges = append(p.ranges, ranges(svc, port)...)
		p.resources = append(p.resources, sidecarVhost(svc, port, rule, f))
		if _, closed := f.far.Closed[port.Number]; svc.Exit.IsZero() && !closed {
			p.resources = append(p.resources, directCluster(svc, port, rule, f.far, connect)...)
		}
	}
	for _, port := range f.shut {
		p.resources = append(p.resources, shutVhost(svc.Host, port, f.rest))
	}
	if !svc.Exit.IsZero() {
		p.gateways = []leg{legOf(svc)}
	}
	p.secrets = f.far.Secrets()
	if n, ok := nameOf(svc, f.alias); ok {
		p.resources = append(p.resources, n)
	}
	return p
}

// foundAs is what a host is found by in a table beside its name, where other hosts may want the same: Envoy refuses
// a table in which two rows do.
type foundAs struct {
	exit   bool     // the host is an egress gateway's own
	short  []string // short names of a Kubernetes service, and the names of ExternalName Services that mean the host
	alias  []string // the full ones of those
	yields []netip.AddrPort
	// contested: other namespaces registered the host too, so the gateway must be told whose registration is meant.
	contested bool
	far       registry.FarEnd
	foreign   bool     // it is another namespace's
	shut      []uint32 // ports at which a pattern of another namespace would take the host
	// rest is what becomes of connections by address that the host does not take: they are nobody's. It is set where single
	// addresses were written for the host, or ports are shut.
	rest outbound
}

// outbound is what happens to what nobody registered, and which object says so.
type outbound struct {
	allowAny bool
	policy   string
	dynamic  bool // as mesh.Config.DynamicDNS; told where ports are shut
}

// tunnel is the route for it.
func (o outbound) tunnel() *routev3.Route {
	revision := unregisteredRevision(o.policy, o.allowAny)
	if o.allowAny {
		return answer{route: allowAnyRoute, config: o.policy, revision: revision, cluster: passthroughCluster}.row(asksAbout(""))
	}
	return nothing(blockAllRoute, o.policy, revision).row(asksAbout(""))
}

func useOf(port registry.Port, foreign bool) portUse {
	return portUse{number: port.Number, opaque: port.Protocol == registry.TCP && !foreign, foreign: foreign}
}

// shutVhost keeps a host, on a port at which it is not registered, from a pattern of another namespace: it goes where
// names go that nobody registered.
func shutVhost(host string, port uint32, rest outbound) *Resource {
	asked := askAgain(listening{number: port, ranges: []rangeUse{{port: port}}}) // whether there are ranges, or names are read, the listener knows
	last := lastResort(sidecarIn{allowAny: rest.allowAny, policy: rest.policy, dynamic: rest.dynamic}, asked...)
	vh := &routev3.VirtualHost{Name: vhostName(routeName(port), host), Domains: []string{host}, Routes: last.Routes}
	return seal(VirtualHost, vh.Name, vh)
}

// sidecarVhost is the row of a port's table for a host. Requests and tunnels both find it: by Host, by SNI, or,
// where neither can be read, by address.
func sidecarVhost(svc *registry.Service, port registry.Port, rule *registry.Rule, f foundAs) *Resource {
	vh := &routev3.VirtualHost{
		Name:    vhostName(routeName(port.Number), svc.Host),
		Domains: append([]string{svc.Host}, f.short...),
	}
	vh.Domains = append(vh.Domains, addressDomains(svc, port, f.yields)...)
	switch c, closed := f.far.Closed[port.Number]; {
	case closed:
		vh.Routes = append([]*routev3.Route{closedAnswer(c)}, closedRoutes(c, false)...)
	case svc.Exit.IsZero():
		vh.Routes = directRoutes(svc, port, rule, f)
		revise(vh.Routes, svc.RevisionOf(port))
	default:
		vh.Routes = gatewayRoutes(svc, port, f)
		for _, r := range vh.Routes {
			if f.contested && r.GetRoute() != nil {
				named(r, svc) // an answer says it in the tunnel's name
			}
		}
	}
	return seal(VirtualHost, vh.Name, vh)
}

// gatewayRoutes hand a host on to its gateway, under the name and port that it was registered with. What the
// gateway does with them is its own decision.
func gatewayRoutes(svc *registry.Service, port registry.Port, f foundAs) []*routev3.Route {
	cluster := legOf(svc).cluster()
	asRegistered := &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: hostPort(svc.Host, port.Number)}
	request := retried(cluster)
	if !svc.Wildcard() {
		request.HostRewriteSpecifier = asRegistered
		if port.Number == 80 {
			request.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: svc.Host}
		}
	}
	return spoken(svc, port, f, ways{
		tunnel: towardsGateway(svc, port, f.contested), request: through(route("default", anyRequest(), request), translations(port)...),
	})
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

// directRoutes send a host to its own cluster.
func directRoutes(svc *registry.Service, port registry.Port, rule *registry.Rule, f foundAs) []*routev3.Route {
	cluster := ClusterName(port.Number, svc.Host)
	w := ways{
		tunnel:  answer{route: "default", cluster: cluster, revision: svc.RevisionOf(port)},
		request: through(dialled(route("default", anyRequest(), hashed(retried(cluster), rule.TrafficFor(port.Number))), svc, port.TargetPort), translations(port)...),
	}
	if svc.Wildcard() && lookedUp(svc) {
		w.tunnel = inPatterns(patternsInside, cluster, svc, port)
	}
	return spoken(svc, port, f, w)
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

// ways are what leads to a host: tunnels, and requests.
type ways struct {
	tunnel  answer
	request *routev3.Route
}

// name is the way of a tunnel that the host's name found, and address of one that came again by its address.
func (w ways) name() *routev3.Route { return w.tunnel.row(asksAbout("")) }

func (w ways) address(unnamed bool) *routev3.Route {
	w.tunnel.by = accesslog.ByAddress
	r := w.tunnel.row(asksAbout(""))
	r.Match.Headers = []*routev3.HeaderMatcher{askedAgain(unnamed)}
	return r
}

// spoken picks the routes for what a port was registered with: requests for HTTP, tunnels for TLS. A TCP port takes
// whatever comes, and on a port that it shares with HTTP services requests come as requests; so does a TLS port of a
// service of the mesh, whose address is its own. What else comes is told so, and the record names the object.
func spoken(svc *registry.Service, port registry.Port, f foundAs, w ways) []*routev3.Route {
	by := configOf(svc.SourceOf(port))
	wrong := nothing(wrongProtocolRoute, by, w.tunnel.revision).row(asksAbout(""))
	switch {
	case port.Protocol.IsHTTP():
		return append(unnamed(svc, f), wrong, w.request)
	case port.Protocol == registry.TLS && svc.External:
		return append(tlsTunnels(svc, f, w, wrong),
			refuse(wrongProtocolRoute, anyRequest(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as "+string(port.Protocol)+"\n", decidedBy(by)))
	case !svc.ByAddress() || w.tunnel.told == toldAtGateway: // who tells about it is another, or it has no address
		return []*routev3.Route{w.name(), w.request}
	default:
		return []*routev3.Route{w.address(false), w.name(), w.request}
	}
}

// tlsTunnels are the ways of connections to a host outside that takes TLS only. One without a TLS name goes where its
// address leads. One with a name that is nobody's does so, too, if the host is reached straight from here: through a
// gateway, which holds names against each other, it would not come.
func tlsTunnels(svc *registry.Service, f foundAs, w ways, other *routev3.Route) []*routev3.Route {
	if !svc.VIP4.IsValid() && (len(svc.Addresses) == 0 || !svc.ByAddress()) {
		return []*routev3.Route{w.name()}
	}
	named := w.name()
	named.Match.Headers = []*routev3.HeaderMatcher{namedBy(svc.Host)}
	if len(f.alias) > 0 {
		named.Match.Headers = []*routev3.HeaderMatcher{namedBy("*")}
	}
	routes := append([]*routev3.Route{w.address(!svc.Exit.IsZero())}, unnamed(svc, f)...)
	return append(routes, named, other)
}

// unnamed is for TLS connections that the host's address found and that it does not take. With a made-up address they are
// meant for the host, and are told why not; with another they are nobody's.
func unnamed(svc *registry.Service, f foundAs) []*routev3.Route {
	if len(svc.Addresses) == 0 || !svc.ByAddress() {
		return nil
	}
	r := f.rest.tunnel()
	r.Match.Headers = []*routev3.HeaderMatcher{askedAgain(false)}
	return []*routev3.Route{r}
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

// directCluster is the cluster of one port, with its endpoints where they are written down.
func directCluster(svc *registry.Service, port registry.Port, rule *registry.Rule, far registry.FarEnd, connect time.Duration) []*Resource {
	if len(far.Refused) > 0 {
		left := *svc
		left.Endpoints = led(svc.Endpoints, far)
		svc = &left
	}
	role := accesslog.RoleExternal
	if !svc.External {
		role = accesslog.RoleMesh
	}
	way := towards{tls: rule.TLSFor(port.Number), given: far.Given[port.Number], connect: rule.ConnectTimeoutFor(port.Number, connect), traffic: rule.TrafficFor(port.Number)}
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

// ranges are what a TCP or TLS port's host owns beyond single addresses.
func ranges(svc *registry.Service, port registry.Port) []rangeUse {
	var out []rangeUse
	for _, a := range svc.Addresses {
		if !port.Protocol.IsHTTP() && !a.IsSingleIP() && !svc.Wildcard() {
			out = append(out, rangeUse{port: port.Number, prefix: a, host: svc.Host, tls: port.Protocol == registry.TLS})
		}
	}
	return out
}

// addressDomains lets a host be found by its single addresses, but those that lead to another.
func addressDomains(svc *registry.Service, port registry.Port, yields []netip.AddrPort) []string {
	var out []string
	if svc.VIP4.IsValid() {
		out = append(out, svc.VIP4.String(), "["+svc.VIP6.String()+"]")
	}
	for _, a := range svc.Addresses {
		if !a.IsSingleIP() || !svc.ByAddress() || slices.Contains(yields, netip.AddrPortFrom(a.Addr(), uint16(port.Number))) {
			continue
		}
		if a.Addr().Is4() {
			out = append(out, a.Addr().String())
		} else {
			out = append(out, "["+a.Addr().String()+"]")
		}
	}
	return out
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
