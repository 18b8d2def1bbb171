package translate

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// part is one host's share of a gateway's configuration, or of a forward proxy's: for each port a virtual host, and a cluster
// for each namespace that registered it.
func (h *atExit) part() *part {
	p := &part{}
	for _, r := range h.Own {
		p.secrets = append(p.secrets, r.Far.Secrets()...)
	}
	for _, port := range h.Ports() {
		for _, row := range port.Own {
			p.resources = append(p.resources, exitRow{row, h}.clusters()...)
		}
		vh := h.vhost(port)
		p.resources = append(p.resources, seal(VirtualHost, vh.Name, vh))
	}
	return p
}

// vhost is a host's port in the gateway's table. The name that a client asked for is the name that is used: requests by
// their Host, tunnels by the authority, which the listener behind checks against what is said inside.
func (h *atExit) vhost(port resolve.ExitPort) *routev3.VirtualHost {
	host := port.Own[0].Service.Host
	authority := hostPort(host, port.Number)
	vh := &routev3.VirtualHost{Name: vhostName(ExitRoute, authority), Domains: []string{authority}}
	plain := func(c resolve.Choice) bool { return c.Row.Port.Protocol.IsHTTP() && c.Row.Port.Number == 80 }
	if slices.ContainsFunc(port.Choices, plain) {
		vh.Domains = append(vh.Domains, host)
	}
	if len(port.Choices) == 1 {
		row := exitRow{port.Choices[0].Row, h}
		vh.Routes, vh.TypedPerFilterConfig = row.routes(), row.access()
		return vh
	}
	for _, c := range port.Choices {
		vh.Routes = append(vh.Routes, h.chosen(c)...)
	}
	return vh
}

// chosen are the routes of a choice, each for the row's audience, that the choice's clients take.
func (h *atExit) chosen(c resolve.Choice) []*routev3.Route {
	row := exitRow{c.Row, h}
	routes := row.routes()
	for _, route := range routes {
		if access := row.access(); IsAnswer(route) {
			// it knows whom it is for
		} else if route.TypedPerFilterConfig == nil {
			route.TypedPerFilterConfig = access
		} else {
			maps.Copy(route.TypedPerFilterConfig, access)
		}
		if c.From != nil {
			route.Match.FilterState = append(route.Match.FilterState, cameFrom(c.From, h.trust))
		}
		if c.Meaning != "" {
			route.Match.Headers = append(route.Match.Headers, &routev3.HeaderMatcher{Name: headerRegisteredIn, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
				StringMatch: exact(c.Meaning),
			}})
		}
	}
	return routes
}

// exitRow is a row as an exit of a class renders it.
type exitRow struct {
	*resolve.ExitRow
	at *atExit
}

// routes are, first, the answers to questions about tunnels, then the ways of CONNECT and of requests. Whoever asks gets an
// answer, and so never gets to the routes of requests.
func (r exitRow) routes() []*routev3.Route {
	routes := r.Routes()
	out := r.answers(routes)
	for i := range routes {
		if routes[i].For != resolve.Requests {
			if tunnel := r.tunnel(&routes[i], i == 0); tunnel != nil {
				out = append(out, revise(tunnel, routes[i].Revision))
			}
		}
	}
	for i := range routes {
		if routes[i].For == resolve.Requests {
			out = append(out, revise(r.request(&routes[i]), routes[i].Revision))
		}
	}
	if _, closed := r.Closed(); !closed && r.mayComeBack() {
		return countHops(out)
	}
	return out
}

// answers are for those who verified their client, of which gateways take plain tunnels.
func (r exitRow) answers(routes []resolve.Route) (out []*routev3.Route) {
	if !r.at.Verified {
		return nil
	}
	denied := nothing(accesslog.NotExportedRoute, configOf(r.Service.SourceOf(r.Port)), r.Service.RevisionOf(r.Port)).row(asksAbout(""))
	if r.Audience != nil && len(r.Audience) == 0 {
		return append(out, denied)
	}
	for i := range routes {
		if routes[i].For == resolve.Requests {
			continue
		}
		row := r.answer(&routes[i])
		if r.Audience != nil {
			row.Match.FilterState = append(row.Match.FilterState, cameFrom(r.Audience, r.at.trust))
		}
		out = append(out, row)
	}
	if r.Audience == nil {
		return out
	}
	return append(out, denied)
}

// answer renders a route of connections.
func (r exitRow) answer(route *resolve.Route) *routev3.Route {
	by, match := configOf(route.By), asksAbout("")
	if route.For == resolve.TLSConnections {
		match = asksAbout(kindTLS)
	}
	switch {
	case route.Does == resolve.Close:
		return closedAnswer(*route.Closed)
	case route.Does == resolve.WrongProtocol:
		return nothing(wrongProtocolRoute, by, route.Revision).row(match)
	case route.Does == resolve.WrongAddress:
		return nothing(blockAllRoute, by, route.Revision).row(match)
	case route.Dialled.IsValid():
		row := answer{route: "default", cluster: r.dialledName(), revision: route.Revision}.row(match)
		row.Match.Headers = dialledThere(route.Dialled, r.Port.Number)
		return row
	case r.Service.Wildcard():
		inner := inside{tls: r.Port.Protocol == registry.TLS, wildcard: true}
		return inPatterns(inner.name(), r.name(), r.Service, r.Port).row(match)
	default:
		return answer{route: "default", cluster: r.name(), revision: route.Revision}.row(match)
	}
}

// tunnel renders a route of connections for CONNECT; nil where an earlier route takes all of them: what is inside is not
// known before it is read behind.
func (r exitRow) tunnel(route *resolve.Route, first bool) *routev3.Route {
	switch {
	case route.Does == resolve.Close:
		return closedTunnels(*route.Closed)
	case route.Does == resolve.WrongProtocol && first:
		return refuse(wrongProtocolRoute, anyTunnel(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as plain HTTP: send it requests, not CONNECT\n", nil)
	case route.Does == resolve.WrongProtocol:
		return nil
	case route.Does == resolve.WrongAddress:
		return refuse(blockAllRoute, anyTunnel(), 403,
			"sallyport: the address that was dialled for %REQ(:AUTHORITY)% is none that the gateway connects to: spec.addresses has to name it, and it has to be public or allowed\n",
			decidedBy(configOf(route.By)))
	case route.Dialled.IsValid():
		t := tunnelRoute(r.Service, r.Port, r.dialledName(), state(stateOriginalDst, "%REQ("+headerDialled+")%", once))
		t.Match.Headers = dialledThere(route.Dialled, r.Port.Number)
		return t
	default:
		return tunnelRoute(r.Service, r.Port, r.name())
	}
}

// request renders a route of requests.
func (r exitRow) request(rule *resolve.Route) *routev3.Route {
	switch rule.Does {
	case resolve.Close:
		return closedRequests(*rule.Closed)
	case resolve.WrongProtocol:
		return refuse(wrongProtocolRoute, anyRequest(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as "+string(r.Port.Protocol)+": plain HTTP does not go there\n", nil)
	}
	action := hashed(retried(r.name()), r.Rule.TrafficFor(r.Port.Number))
	if (r.Port.Number == 80 || r.Port.Number == 443) && !r.Service.Wildcard() {
		// "external.com:443" is for the table; the server knows itself as "external.com"
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: r.Service.Host}
	}
	return through(dialled(route("default", anyRequest(), action), r.Service, r.Port.TargetPort), translations(r.Port)...)
}

// tunnelRoute ends a CONNECT and hands its bytes, with what the checks behind need to know, to the listener for
// what the port speaks.
func tunnelRoute(svc *registry.Service, port registry.Port, cluster string, more ...*statev3.FilterStateValue) *routev3.Route {
	values := []*statev3.FilterStateValue{
		state(stateAuthority, "%REQ(:AUTHORITY)%", once),
		state(statePeer, "%DOWNSTREAM_PEER_URI_SAN%", once),
		state(stateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", once),
		state(stateCluster, cluster, once),
	}
	inner := inside{tls: port.Protocol == registry.TLS, wildcard: svc.Wildcard()}
	if svc.Wildcard() {
		values = append(values, state(statePort, routeName(port.TargetPort), once))
	}
	return withState(route("default", anyTunnel(), ended(inner.name())), append(values, more...)...)
}

// name is the name of the row's cluster. The first has the name that users know, the others have their namespace for a subset
// in it.
func (r exitRow) name() string {
	if r.First {
		return ClusterName(r.Port.Number, r.Service.Host)
	}
	return subsetName(r.Port.Number, r.Service.Namespace, r.Service.Host)
}

// clusters are the row's far ends.
func (r exitRow) clusters() []*Resource {
	if _, closed := r.Closed(); closed {
		return nil
	}
	md := reviseOpaque(metadata(accesslog.RoleExternal, configOf(r.Service.SourceOf(r.Port))), r.Service, r.Port)
	to := towards{tls: r.TLS, given: r.Far.Given[r.Port.Number], connect: r.Rule.ConnectTimeoutFor(r.Port.Number, r.at.Connect), traffic: r.Rule.TrafficFor(r.Port.Number)}
	out := endCluster(r.at.clusterType(), r.name(), asOutside(r.Service, r.Far), r.Port, to, md)
	if r.Dials() {
		out = append(out, r.dialledCluster())
	}
	return out
}

func (h *atExit) clusterType() Type {
	if h.onDemand {
		return OnDemandCluster
	}
	return Cluster
}
