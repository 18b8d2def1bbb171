package envoy

import (
	"maps"
	"net/http"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/wire"
)

// What a waypoint does: it takes what is for the Services that it stands before, by mutual TLS whose name says which, or by HBONE, whose authority
// does.

// FilterAuthzTunnels keeps AuthorizationPolicies of connections that come by HBONE; which, the row of each Service says.
const FilterAuthzTunnels = FilterAuthz + ".tunnels"

// filterAuthzAgain keeps them where the agent asks about what is open; which, the answer of each registration of a host says.
const filterAuthzAgain = FilterAuthz + ".again"

// AskedAgainBy has an answer be held to AuthorizationPolicies when the agent asks again.
func AskedAgainBy(answer *routev3.Route, f *httprbacv3.RBAC) *routev3.Route {
	return WithFilterConfig(answer, filterAuthzAgain, AuthorizationOverride(f))
}

// SharedClientFilter is ClientFilter for connections that internal listeners may be behind, which are told, too.
func SharedClientFilter() *listenerv3.Filter {
	return NetworkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{OnDownstreamTlsHandshake: []*statev3.FilterStateValue{
		State(wire.StateClient, "%DOWNSTREAM_PEER_URI_SAN%", SharedOnce),
		State(wire.StateFrom, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", SharedOnce),
		State(wire.StateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", SharedOnce),
	}})
}

// NoteServicePort notes the Service's port that a connection is for.
func NoteServicePort(port uint32) *listenerv3.Filter {
	return SetFilterState(State(wire.StatePort, portText(port)[1:], NotShared))
}

// WaypointTags are what a waypoint says of what comes: by an internal listener, the client's certificate is not the connection's.
var WaypointTags = map[string]string{
	wire.TagPeer:   "%FILTER_STATE(" + wire.StateClient + ":PLAIN)%",
	wire.TagSource: "%FILTER_STATE(" + wire.StateSource + ":PLAIN)%",
}

// WaypointHCM reads the requests for a Service, or for a host outside, and follows its table.
func WaypointHCM(table string, log, deniedOnly, outside, ends bool, asking []Authorizer) *listenerv3.Filter {
	m := HCM{Stat: table, Route: table, Peer: true}
	hcm := m.manager()
	var asked []*hcmv3.HttpFilter // what leaves is asked about by EgressPolicies, where its table says so
	if outside {
		asked = policies()
		if ends {
			asked = append(asked, leaving()...)
		}
	}
	hcm.HttpFilters = waypointFilters(asking, asked...)
	hcm.EarlyHeaderMutationExtensions = append(withoutProxyHeaders(), askedPlain())
	hcm.LocalReplyConfig = nil
	if log {
		hcm.AccessLog = accessLogOf(wire.InboundHTTP, true, WaypointTags, true)
	}
	if log && deniedOnly {
		hcm.AccessLog = deniedAlone(hcm.AccessLog, true)
	}
	if outside {
		leaves(hcm)
	}
	return NetworkFilter("envoy.filters.network.http_connection_manager", hcm)
}

// waypointFilters are what requests go through for a Service. Their route is found once, so those that few routes need are off.
func waypointFilters(asking []Authorizer, asked ...*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	authorize := slices.Concat([]*hcmv3.HttpFilter{TokenHTTPFilter(), authorizedBy(FilterCustom)}, AuthorizerFilters(asking), []*hcmv3.HttpFilter{authorizedBy(FilterAuthzRequests)})
	return append(append(authorize, asked...),
		off(httpFilter(filterState, &httpstatev3.Config{})),
		off(httpFilter(FilterCORS, &corsv3.Cors{})),
		off(httpFilter(FilterFault, &faultv3.HTTPFault{})),
		off(httpFilter(FilterWeb, &grpcwebv3.GrpcWeb{})),
		upgradesOverHTTP11(),
		off(sessions()),
		router(),
	)
}

// leaves is about requests for hosts outside. What an egress gateway takes is in its log, and here is what gets no farther.
func leaves(hcm *hcmv3.HttpConnectionManager) {
	hcm.ForwardClientCertDetails, hcm.SetCurrentClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE, nil // nobody outside is told
	hcm.LocalReplyConfig = denials()
	hcm.LocalReplyConfig.Mappers = slices.Insert(hcm.LocalReplyConfig.Mappers, 0, refused())
	hcm.AccessLog = accessLogOf(wire.InboundHTTP, true, outsideTags(nil), true)
	for _, l := range hcm.AccessLog {
		l.Filter = worthTelling(wire.SidecarHTTP, nil, true)
	}
}

// outsideTags are what a waypoint says of what goes outside, beside others.
func outsideTags(others map[string]string) map[string]string {
	tags := map[string]string{}
	for _, tag := range logTags(wire.SidecarHTTP) {
		tags[tag] = TagFormats[tag]
	}
	maps.Copy(tags, WaypointTags)
	maps.Copy(tags, others)
	return tags
}

// FrontedFilterConfigs is OutsideFilterConfigs at a waypoint, where the agent is told which registration of the host it is, as well. Tunnels are asked about where their bytes are (WaypointTCPFilters).
func FrontedFilterConfigs(host string, port uint32, of wire.Front) map[string]*anypb.Any {
	out := OutsideFilterConfigs(host, port, "")
	out[filterAsked] = ToAny(asking("", State(wire.StateHost, host, NotShared), State(wire.StateAt, portText(port), NotShared), State(wire.StateTable, of.Tag(), NotShared)))
	if of.Kind != "" {
		for _, f := range []string{FilterRoot, FilterOwn, FilterLeavingLasts} {
			delete(out, f)
		}
	}
	return out
}

// NoteOpened notes of a connection, for the internal listener behind, what the agent is told of it when it has got where it goes: which one it is, and what is asked about it.
func NoteOpened(kind, in string) *listenerv3.Filter {
	return SetFilterState(State(wire.StateTunnel, wire.Leaving{Local: wire.LeavingLocal, Client: wire.LeavingClient, Kind: kind, Table: wire.WaypointAgain, In: in}.Tag(), SharedOnce))
}

// WaypointTCPFilters asks about a connection to a host outside, by its name ("host:port") and the namespace whose registration is meant, as its client, and passes its
// bytes on to the egress gateway.
func WaypointTCPFilters(stat, name, in, kind string, told bool) []*listenerv3.Filter {
	came := func(key string) string { return "%FILTER_STATE(" + key + ":PLAIN)%" }
	q := Question{Table: wire.WaypointDecide, Name: name, Also: map[string]string{HeaderKind: kind, HeaderPeer: came(wire.StateClient), HeaderFrom: came(wire.StateFrom), wire.HeaderRegisteredIn: in}}
	on := TCPProxy{Stat: stat, Cluster: wire.BlackHoleCluster, Log: wire.InboundTCP, Tags: outsideTags(QuestionTags(name)), Begins: told, Behind: told}
	if told {
		on.Tags[wire.TagTunnel] = TagFormats[wire.TagTunnel]
	}
	return []*listenerv3.Filter{
		q.Filter(), RouteByAnswer(TunnelProtocols(), State(wire.StateServerName, AnswerFormat(SaySNI), NotShared)), on.Filter(),
	}
}

// WaypointTunnels takes HBONE, by a table whose rows are Services'. The agent is told of tunnels to hosts outside, where it knows them: they share their connection.
func WaypointTunnels(table string, log, deniedOnly, told bool) *listenerv3.Filter {
	m := HCM{Stat: table, Route: table, Peer: true, Connect: true, Tunnel: true}
	hcm := m.manager()
	hcm.HttpFilters = []*hcmv3.HttpFilter{httpFilter(FilterAuthzTunnels, &httprbacv3.RBAC{})}
	if told {
		hcm.HttpFilters = append(hcm.HttpFilters, off(httpFilter(filterAsked, &httpstatev3.Config{})))
		hcm.HttpFilters = append(hcm.HttpFilters, leavingTold()...)
	}
	hcm.HttpFilters = append(hcm.HttpFilters, router())
	hcm.EarlyHeaderMutationExtensions = withoutProxyHeaders()
	hcm.LocalReplyConfig = nil
	if log {
		hcm.AccessLog = accessLog(wire.InboundTunnel, true)
	}
	if log && deniedOnly {
		hcm.AccessLog = failedTunnels(hcm.AccessLog)
	}
	return NetworkFilter("envoy.filters.network.http_connection_manager", hcm)
}

// NotFrontedHost is what a waypoint answers to tunnels to what it does not stand before, and to requests that are no tunnels.
func NotFrontedHost() *routev3.VirtualHost {
	refused := func(status uint32, why string, match *routev3.RouteMatch) *routev3.Route {
		return Refuse(wire.ClosedRoute+why, match, status, "sallyport: "+why+"\n", nil)
	}
	return &routev3.VirtualHost{Name: "others", Domains: []string{"*"}, Routes: []*routev3.Route{
		refused(http.StatusNotFound, "the waypoint does not stand before what is asked about", MatchQuestion("")),
		refused(http.StatusNotFound, "the waypoint does not stand before what the tunnel asks for", MatchAnyTunnel()),
		refused(http.StatusBadRequest, "waypoints take tunnels here", MatchAnyRequest()),
	}}
}

// AuthorizationOverride are AuthorizationPolicies of a row's, or of a table's, in the place of those of the filter.
func AuthorizationOverride(f *httprbacv3.RBAC) *anypb.Any {
	return ToAny(&httprbacv3.RBACPerRoute{Rbac: f})
}
