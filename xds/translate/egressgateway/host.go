package egressgateway

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/httproute"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Host is what an exit's part is made from.
type Host struct {
	resolve.ExitHost
	Trust    envoy.TrustDomains
	OnDemand bool
}

// Part is one host's share of a gateway's configuration, or of a forward proxy's: for each port a virtual host, and a cluster
// for each namespace that registered it.
func (h *Host) Part() *part.Part {
	p := part.New()
	p.Secrets = h.Secrets()
	for _, port := range h.Ports() {
		for _, row := range port.Own {
			p.Resources = append(p.Resources, exitRow{row, h}.clusters()...)
		}
		for _, c := range port.Choices {
			for _, r := range (exitRow{c.Row, h}).wrapped() {
				if !slices.ContainsFunc(p.Resources, func(o *resource.Resource) bool { return o.Type == r.Type && o.Name == r.Name }) {
					p.Resources = append(p.Resources, r)
				}
			}
		}
		vh := h.vhost(port)
		p.Resources = append(p.Resources, envoy.Seal(resource.VirtualHost, vh.Name, vh))
	}
	return p
}

// Endpoints are none: what leaves by an exit is no Service.
func (h *Host) Endpoints([]registry.Endpoint) []*resource.Resource { return nil }

// vhost is a host's port in the gateway's table. The name that a client asked for is the name that is used: requests by
// their Host, tunnels by the authority, which the listener behind checks against what is said inside.
func (h *Host) vhost(port resolve.ExitPort) *routev3.VirtualHost {
	host := port.Own[0].Service.Host
	authority := wire.HostPort(host, port.Number)
	vh := &routev3.VirtualHost{Name: wire.VhostName(wire.ExitRoute, authority), Domains: []string{authority}}
	if port.Number == 80 { // requests there name no port, whatever the port was registered with
		vh.Domains = append(vh.Domains, host)
	}
	if len(port.Choices) == 1 {
		row := exitRow{port.Choices[0].Row, h}
		vh.Routes, vh.TypedPerFilterConfig = row.routes(), row.access()
	} else {
		for _, c := range port.Choices {
			vh.Routes = append(vh.Routes, h.chosen(c)...)
		}
	}
	if port.Own[0].Service.Wildcard() {
		return envoy.RefuseOddHosts(vh)
	}
	envoy.NoteRowHost(vh, host)
	return vh
}

// chosen are the routes of a choice, each for the row's audience, that the choice's clients take.
func (h *Host) chosen(c resolve.Choice) []*routev3.Route {
	row := exitRow{c.Row, h}
	routes, access := row.routes(), row.access()
	for _, route := range routes {
		if !envoy.IsAnswer(route) { // those know whom they are for
			letIn(route, access)
		}
		if c.From != nil {
			route.Match.FilterState = append(route.Match.FilterState, cameFrom(c.From, h.Trust))
		}
		if c.Meaning != "" {
			route.Match.Headers = append(route.Match.Headers, &routev3.HeaderMatcher{Name: wire.HeaderRegisteredIn, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
				StringMatch: envoy.Exact(c.Meaning),
			}})
		}
	}
	return routes
}

// exitRow is a row as an exit of a class renders it.
type exitRow struct {
	*resolve.ExitRow
	at *Host
}

// routes are, first, the answers to questions about tunnels, then the ways of CONNECT and of requests. Whoever asks gets an
// answer, and so never gets to the routes of requests.
func (r exitRow) routes() []*routev3.Route {
	routes := r.Routes()
	out := r.answers(routes)
	for i := range routes {
		if routes[i].For != resolve.Requests && routes[i].L4 != nil && routes[i].Action == resolve.Forward {
			out = append(out, r.userTunnels(&routes[i])...)
		} else if routes[i].For != resolve.Requests {
			if tunnel := r.tunnel(&routes[i], i == 0); tunnel != nil {
				out = append(out, envoy.WithRevision(tunnel, routes[i].Revision))
			}
		}
	}
	if !r.at.Verified && r.TLS == nil && slices.ContainsFunc(routes, func(x resolve.Route) bool { return x.For == resolve.Requests && x.Action == resolve.Forward }) {
		out = append(out, r.insecure())
	}
	for i := range routes {
		if routes[i].For == resolve.Requests {
			row := r.request(&routes[i])
			if routes[i].HTTP == nil {
				envoy.WithRevision(row, routes[i].Revision)
			}
			out = append(out, row)
		}
	}
	if r.Service.Unregistered {
		for _, row := range out {
			envoy.RequireUnregisteredRule(row)
		}
	}
	if _, closed := r.Closed(); !closed && r.anyMayComeBack(routes) {
		return countHops(out)
	}
	return out
}

// tunnel renders a route of connections for CONNECT; nil where an earlier route takes all of them: what is inside is not
// known before it is read behind.
func (r exitRow) tunnel(route *resolve.Route, first bool) *routev3.Route {
	switch {
	case route.Action == resolve.Close:
		return farend.ClosedTunnels(*route.Closed)
	case route.Action == resolve.WrongProtocol && first:
		return envoy.Refuse(wire.WrongProtocolRoute, envoy.MatchAnyTunnel(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as plain HTTP: send it requests, not CONNECT\n", envoy.DecidedByMetadata(envoy.ObjectRef(route.By)))
	case route.Action == resolve.WrongProtocol:
		return nil
	case route.Action == resolve.Unrouted:
		return farend.NoRoute(route.By, route.Revision, envoy.MatchAnyTunnel())
	case route.Action == resolve.WrongAddress:
		return envoy.Refuse(wire.BlockAllRoute, envoy.MatchAnyTunnel(), 403,
			"sallyport: the address that was dialled for %REQ(:AUTHORITY)% is none that the gateway connects to: spec.addresses has to name it, and it has to be public or allowed\n",
			envoy.DecidedByMetadata(envoy.ObjectRef(route.By)))
	case route.Dialled.IsValid():
		t := tunnelRoute(r.Service, r.Port, r.dialledName(), envoy.State(wire.StateOriginalDst, "%REQ("+wire.HeaderDialled+")%", envoy.SharedOnce))
		t.Match.Headers = dialledThere(route.Dialled, r.Port.Number)
		return r.noted(t)
	case r.at.Verified:
		return r.noted(tunnelRoute(r.Service, r.Port, r.name()))
	default:
		return tunnelRoute(r.Service, r.Port, r.name(), allOfConnection())
	}
}

// insecure refuses a request to a forward proxy that asks for an https:// URL, as some clients do in place of a CONNECT (RFC 9112 section 3.2.2): it would go on in plain text, and nobody would be told.
func (r exitRow) insecure() *routev3.Route {
	match := envoy.MatchAnyRequest()
	match.Headers = []*routev3.HeaderMatcher{{Name: ":scheme", HeaderMatchSpecifier: envoy.HeaderMatches("(?i)https")}}
	row := envoy.Refuse(wire.WrongProtocolRoute, match, 403, "sallyport: https is asked for, and a request to %REQ(:AUTHORITY)% would leave in plain text: open a tunnel by CONNECT, as clients do for HTTPS_PROXY\n", envoy.DecidedByMetadata(envoy.ObjectRef(r.Service.SourceOf(r.Port))))
	return envoy.WithRevision(row, r.Service.RevisionOf(r.Port))
}

// request renders a route of requests.
func (r exitRow) request(rule *resolve.Route) *routev3.Route {
	switch rule.Action {
	case resolve.Close:
		closed := farend.ClosedRequests(*rule.Closed)
		if rule.Match != nil {
			closed.Match = httproute.Match(rule.Match)
		}
		return closed
	case resolve.Unrouted:
		return farend.NoRoute(rule.By, rule.Revision, envoy.MatchAnyRequest())
	case resolve.WrongProtocol:
		return envoy.Refuse(wire.WrongProtocolRoute, envoy.MatchAnyRequest(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as "+string(r.Port.Protocol)+": plain HTTP does not go there\n", envoy.DecidedByMetadata(envoy.ObjectRef(rule.By)))
	}
	if rule.HTTP != nil {
		return r.userRequest(rule)
	}
	action := farend.WithHashPolicy(envoy.ToClusterRetried(r.name()), r.Rule.TrafficFor(r.Port.Number))
	if (r.Port.Number == 80 || r.Port.Number == 443) && !r.Service.Wildcard() {
		// "external.com:443" is for the table; the server knows itself as "external.com"
		action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: r.Service.Host}
	}
	return r.noted(envoy.EnableFilters(farend.ConnectByName(envoy.Route("default", envoy.MatchAnyRequest(), action), r.Service, r.Port.TargetPort), farend.ProtocolTranslations(r.Port)...))
}

// noted names the object in the route where some are refused there: a cluster that says it may not be there yet.
func (r exitRow) noted(route *routev3.Route) *routev3.Route {
	if r.at.Verified && r.Audience != nil {
		route.Metadata = envoy.DecidedByMetadata(envoy.ObjectRef(r.Service.SourceOf(r.Port)))
	}
	return route
}

// tunnelRoute ends a CONNECT and hands its bytes, with what the checks behind need to know, to the listener for
// what the port speaks.
func tunnelRoute(svc *registry.Service, port registry.Port, cluster string, more ...*statev3.FilterStateValue) *routev3.Route {
	values := []*statev3.FilterStateValue{
		envoy.State(wire.StateAuthority, "%REQ(:AUTHORITY)%", envoy.SharedOnce),
		envoy.State(wire.StatePeer, "%DOWNSTREAM_PEER_URI_SAN%", envoy.SharedOnce),
		envoy.State(wire.StateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", envoy.SharedOnce),
		envoy.State(wire.StateCluster, cluster, envoy.SharedOnce),
		envoy.State(wire.StateSpoken, envoy.KindTCP, envoy.NotShared),
	}
	inner := innerListener{tls: port.Protocol == registry.TLS, wildcard: svc.Wildcard()}
	if inner.tls {
		values[len(values)-1] = envoy.State(wire.StateSpoken, envoy.KindTLS, envoy.NotShared)
		values = append(values, envoy.State(wire.StateConfig, envoy.ObjectRef(svc.SourceOf(port)), envoy.SharedOnce))
	}
	if svc.Wildcard() {
		values = append(values, envoy.State(wire.StatePort, wire.RouteName(port.TargetPort), envoy.SharedOnce))
	}
	return envoy.WithState(envoy.Route("default", envoy.MatchAnyTunnel(), envoy.TerminateConnect(inner.name())), append(values, more...)...)
}

// allOfConnection says of a CONNECT that it is all of its client's connection from here on, and where that is: by HTTP/2 it shares it.
func allOfConnection() *statev3.FilterStateValue {
	return envoy.ComputedState(wire.StateTunnel, "request.protocol == 'HTTP/2' ? '' : destination.address + ' '", envoy.SharedOnce)
}

// name is the name of the row's cluster. The first has the name that users know, the others have their namespace for a subset
// in it.
func (r exitRow) name() string {
	if r.First {
		return wire.ClusterName(r.Port.Number, r.Service.Host)
	}
	return wire.SubsetName(r.Port.Number, r.Service.Namespace, r.Service.Host)
}

// clusters are the row's far ends.
func (r exitRow) clusters() []*resource.Resource {
	if _, closed := r.Closed(); closed {
		return nil
	}
	md := farend.OpaqueRevision(envoy.Metadata(wire.RoleExternal, envoy.ObjectRef(r.Service.SourceOf(r.Port))), r.Service, r.Port)
	to := farend.Options{TLS: r.TLS, Given: r.Restrictions.Given[r.Port.Number], Connect: r.Rule.ConnectTimeoutFor(r.Port.Number, r.at.Connect), Traffic: r.Rule.TrafficFor(r.Port.Number), Near: r.at.Near}
	out := farend.Cluster(r.at.clusterType(), r.name(), asOutside(r.Service, r.Restrictions), r.Port, to, md)
	if r.Dials() {
		out = append(out, r.dialledCluster())
	}
	return out
}

func (h *Host) clusterType() resource.Type {
	if h.OnDemand {
		return resource.OnDemandCluster
	}
	return resource.Cluster
}
