package envoy

import (
	"maps"
	"strconv"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// The filters that keep EgressPolicies: the root namespace's level, and that of the workload's own. What they hold comes as
// resources of these names (xds/translate/policyfilter).
const (
	FilterRoot = "sallyport.policies.root"
	FilterOwn  = "sallyport.policies.own"

	// FilterRootLed and FilterOwnLed are exits', for the host that a route leads to.
	FilterRootLed = FilterRoot + led
	FilterOwnLed  = FilterOwn + led

	led = ".led"
)

// FilterAuthz keeps the AuthorizationPolicies that are for a proxy. What it holds comes by a resource of this name
// (xds/translate/authzfilter).
const FilterAuthz = "sallyport.authorization"

// FilterAuthzRequests and FilterAuthzConnections keep those that are for a sidecar's pod, of what comes for its app, and those for an ingress
// gateway's pods.
const (
	FilterAuthzRequests    = FilterAuthz + ".requests"
	FilterAuthzConnections = FilterAuthz + ".connections"
)

// FilterCustom says which requests an authorizer is asked about, and FilterAuthorizer asks it; FilterCustomConnections and
// FilterAuthorizerConnections are those of connections. What they hold comes by resources of these names; nobody is asked where a
// FilterAuthorizer is given no authorizer, but rules without any.
const (
	FilterCustom                = FilterAuthz + ".custom"
	FilterAuthorizer            = FilterAuthz + ".authorizer"
	FilterCustomConnections     = FilterCustom + ".connections"
	FilterAuthorizerConnections = FilterAuthorizer + ".connections"
)

// FilterTokens verifies the tokens of requests, before they are asked about. What it holds comes by a resource of this name.
const FilterTokens = "sallyport.tokens"

// The types of what they hold: rules, or, at a gateway, an index of rules.
const (
	AccessType     = "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"
	connectionType = "type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC"
	tokensType     = "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication"
	authorizerType = "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz"
	askingType     = "type.googleapis.com/envoy.extensions.filters.network.ext_authz.v3.ExtAuthz"
	indexType      = "type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher"
)

// ECDSSource is where an extension's configuration is asked for. Until it is there, Envoy answers by itself that it is not, which closes.
func ECDSSource(types ...string) *corev3.ExtensionConfigSource {
	return &corev3.ExtensionConfigSource{
		ConfigSource: &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}},
		TypeUrls:     types,
	}
}

// policies are the filters, of exits: for all that comes to them, since it goes outside. They are off where a table does not say that
// there is something to keep (Keep): each costs every request.
func policies() []*hcmv3.HttpFilter {
	asked := httpFilter(filterAsked, &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{hostSaid(), portAsked()}})
	return []*hcmv3.HttpFilter{off(asked), off(askedByName()), off(byPolicy(FilterRoot)), off(byPolicy(FilterOwn))}
}

// askedByName notes the host that is asked for where the row does not say it, which is of a pattern then. An expression takes some 10 µs, so it
// is left out otherwise.
func askedByName() *hcmv3.HttpFilter {
	said := MatchCase(InputMatches(StateInput(wire.StateHost), ".+"), skipFilter())
	return httpFilter(filterAskedHost, &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: filterState, TypedConfig: ToAny(&httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{hostAsked()}})},
		XdsMatcher:      MatchList([]*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{said}, nil),
	})
}

// rowHost is where a row of an exit, or a route of a sidecar's, says of which host it is.
const rowHost = "host"

// NoteRowHost says in a row that it is of this host and of no other, so that nothing looks for the host: a filter that has nothing to do costs each request, too.
func NoteRowHost(row *routev3.VirtualHost, host string) {
	row.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"sallyport": fields(rowHost, host)}}
	if row.TypedPerFilterConfig == nil {
		row.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	row.TypedPerFilterConfig[filterAskedHost] = turnedOff()
}

// hostSaid is that host; nothing where the row is of several.
func hostSaid() *statev3.FilterStateValue {
	return State(wire.StateHost, "%METADATA(VIRTUAL_HOST:sallyport:"+rowHost+")%", NotShared)
}

// authorization are the filters of a gateway's tokens and AuthorizationPolicies, off like the others. The latter ask for nothing that filterAsked notes.
func authorization() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{off(TokenHTTPFilter()), off(authorizedBy(FilterCustom)), off(askAuthorizer()), off(authorizedBy(FilterAuthz))}
}

func askAuthorizer() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: FilterAuthorizer, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: ECDSSource(authorizerType, AccessType)}}
}

func authorizedBy(name string) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: ECDSSource(AccessType)}}
}

// TokenHTTPFilter is the filter that verifies tokens.
func TokenHTTPFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: FilterTokens, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: ECDSSource(tokensType)}}
}

// AuthorizationRequestFilters are the filters that judge requests to a sidecar's pod's app, or to an ingress gateway: tokens are verified first, then
// AuthorizationPolicies asked, of which those come first that have an authorizer asked.
func AuthorizationRequestFilters() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{TokenHTTPFilter(), authorizedBy(FilterCustom), askAuthorizer(), authorizedBy(FilterAuthzRequests)}
}

// AuthorizationConnectionFilters are those for connections whose bytes nobody reads. They ask when the client's first bytes come, and after TLS.
func AuthorizationConnectionFilters() []*listenerv3.Filter {
	by := func(name string, types ...string) *listenerv3.Filter {
		return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: ECDSSource(types...)}}
	}
	return []*listenerv3.Filter{by(FilterCustomConnections, connectionType), by(FilterAuthorizerConnections, askingType, connectionType), by(FilterAuthzConnections, connectionType)}
}

// policiesOfLed are the same once more, for requests that a user's route leads from the host that they are for to another one: both
// have to be permitted, since the one is what the server reads, and the other where it goes. They are off where no route says so.
func policiesOfLed() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{off(httpFilter(filterAskedLed, &httpstatev3.Config{})), off(byPolicy(FilterRootLed)), off(byPolicy(FilterOwnLed))}
}

// RoutedFilterConfigs is what a destination that is another host than the request's needs of an exit's filters, by their names; outside is
// what StateOutside says of it, "" for what it says already.
func RoutedFilterConfigs(host string, port uint32, outside string) map[string]*anypb.Any {
	return map[string]*anypb.Any{filterAskedLed: ToAny(askedAbout(host, port, outside)), FilterRootLed: turnedOn(), FilterOwnLed: turnedOn()}
}

// OutsideFilterConfigs is what a destination outside needs of a sidecar's filters, by their names, where policies are kept there.
func OutsideFilterConfigs(host string, port uint32, outside string) map[string]*anypb.Any {
	out := map[string]*anypb.Any{filterAsked: ToAny(askedAbout(host, port, outside)), FilterRoot: turnedOn(), FilterOwn: turnedOn()}
	for _, f := range filtersOfLeaving {
		out[f] = turnedOn()
	}
	return out
}

// askedAbout has policies asked about a host and port that a route leads to; of a pattern, about the host that is asked for.
func askedAbout(host string, port uint32, outside string) *httpstatev3.Config {
	value := hostAsked()
	if host[0] != '*' {
		value = State(wire.StateHost, host, NotShared)
	}
	return asking(outside, value, State(wire.StateAt, portText(port), NotShared))
}

// asking has policies asked about these values, and what StateOutside is to say.
func asking(outside string, values ...*statev3.FilterStateValue) *httpstatev3.Config {
	if outside != "" {
		values = append(values, State(wire.StateOutside, outside, NotShared))
	}
	return &httpstatev3.Config{OnRequestHeaders: values}
}

// RequireUnregisteredRule marks an exit's row whose host nobody registered: only rules that say so let it out. A row that asks about another host says
// of that one what it is.
func RequireUnregisteredRule(r *routev3.Route) {
	if r.TypedPerFilterConfig[filterAsked] == nil {
		WithFilterConfig(r, filterAsked, ToAny(asking(wire.LetOutByPolicy, hostAsked(), portAsked())))
	}
}

// RoutedAnswer makes an answer to questions about connections that are led to another host, of which nobody reads anything: policies are
// asked about that one.
func RoutedAnswer(row *routev3.Route, host string, port uint32, outside string) *routev3.Route {
	return WithFilterConfig(row, filterAsked, ToAny(askedAbout(host, port, outside)))
}

func portText(port uint32) string { return ":" + strconv.FormatUint(uint64(port), 10) }

// Enforcement says which levels of policies there are, or that some are expected, whether rules of theirs end, whether there are AuthorizationPolicies and RequestAuthentications, and whether an
// agent is told of requests that are under way.
type Enforcement struct{ Root, Own, Expected, Ends, Authz, Tokens, Told bool }

// EnableEnforcement turns the filters on for whatever an exit's table is asked for. A table can be changed without ending a connection, which a
// listener cannot.
func EnableEnforcement(table *routev3.RouteConfiguration, which Enforcement) {
	var filters []string
	if which.Root || which.Own {
		filters = append(filters, filterAsked, filterAskedHost)
	}
	if which.Root {
		filters = append(filters, FilterRoot)
	}
	if which.Own {
		filters = append(filters, FilterOwn)
	}
	if which.Told && (which.Root || which.Own || which.Expected || which.Authz) {
		filters = append(filters, filterUnderWay, filterTells)
	}
	if which.Ends {
		filters = append(filters, filterEnds, filterEndsHeader)
	}
	if which.Tokens {
		filters = append(filters, FilterTokens)
	}
	if which.Authz { // all three, also where nobody is asked: which of them closes changes without the table
		filters = append(filters, FilterCustom, FilterAuthorizer, FilterAuthz)
	}
	for _, f := range filters {
		if table.TypedPerFilterConfig == nil {
			table.TypedPerFilterConfig = map[string]*anypb.Any{}
		}
		table.TypedPerFilterConfig[f] = turnedOn()
	}
}

// sidecarPolicies are those of sidecars, where a row says what goes outside (Outside), and, of a host, which one; else it is what
// is asked for.
func sidecarPolicies(asked ...*statev3.FilterStateValue) []*hcmv3.HttpFilter {
	said := append(asked,
		State(wire.StateOutside, "%METADATA(ROUTE:sallyport:"+rowOutside+")%", NotShared),
		State(wire.StateHost, "%METADATA(ROUTE:sallyport:"+rowHost+")%", NotShared),
		State(wire.StateAt, "%METADATA(ROUTE:sallyport:"+rowPort+")%", NotShared),
	)
	return []*hcmv3.HttpFilter{httpFilter(filterAsked, &httpstatev3.Config{OnRequestHeaders: said}), byPolicy(FilterRoot), byPolicy(FilterOwn)}
}

// filterAsked notes what rules are asked about, filterAskedHost of which host where nothing said it, and filterAskedLed what they are asked
// about besides.
const (
	filterAsked     = "sallyport.asked"
	filterAskedHost = filterAsked + ".host"
	filterAskedLed  = filterAsked + led
)

func byPolicy(name string) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: ECDSSource(AccessType, indexType)}}
}

// What a sidecar's row says of what goes outside without a gateway: that it does, the host, where the row is of one, and its port, where
// that is another than was asked for.
const (
	rowOutside = "outside"
	rowPort    = "port"
)

// MarkOutside marks a sidecar's row whose traffic leaves the mesh from there, to a host, or, for "", to whatever is asked for; and to a port,
// or, for 0, the one that is asked for. Policies are kept for it there, since no gateway will; outside is wire.Leaves or wire.LetOutByPolicy.
func MarkOutside(r *routev3.Route, outside, host string, port uint32) *routev3.Route {
	if r.Metadata == nil {
		r.Metadata = &corev3.Metadata{}
	}
	if r.Metadata.FilterMetadata == nil {
		r.Metadata.FilterMetadata = map[string]*structpb.Struct{}
	}
	m := fields(rowOutside, outside)
	maps.Copy(m.Fields, r.Metadata.FilterMetadata["sallyport"].GetFields())
	if host != "" && host[0] != '*' {
		m.Fields[rowHost] = structpb.NewStringValue(host)
	}
	if port != 0 {
		m.Fields[rowPort] = structpb.NewStringValue(portText(port))
	}
	r.Metadata.FilterMetadata["sallyport"] = m
	if IsAnswer(r) {
		sayItLeaves(r)
		return r // of questions the filters are always on
	}
	return EnableFilters(EnableFilters(r, filterAsked, FilterRoot, FilterOwn), filtersOfLeaving...)
}

// policiesHeld is the internal listener that no connection comes to, and that asks for what an index leads to: Envoy does not ask
// for it when the index comes, but takes what it has already.
const policiesHeld = "policies"

// HoldPolicies is that listener, for resources of these names.
func HoldPolicies(names []string) *resource.Resource {
	hcm := asksOnly(policiesHeld)
	hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{Name: policiesHeld}}
	for _, name := range names {
		hcm.HttpFilters = append(hcm.HttpFilters, &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: ECDSSource(AccessType)}})
	}
	hcm.HttpFilters = append(hcm.HttpFilters, httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}))
	l := InternalListener(policiesHeld, nil, FilterChain("none", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
	return Seal(resource.Listener, policiesHeld, l)
}

// hostAsked is the host of a request, or of a question, without its port and in lower case; or the address.
func hostAsked() *statev3.FilterStateValue {
	return ComputedState(wire.StateHost, hostIn("request.host"), NotShared)
}

// portAsked is the port of a request, or of a question, after its host.
func portAsked() *statev3.FilterStateValue {
	return State(wire.StateAt, "%REQ(:AUTHORITY)%", NotShared)
}

// portDialled is the port that a request's connection was for: what the request says may be anything.
func portDialled() *statev3.FilterStateValue {
	return State(wire.StateAt, ":%DOWNSTREAM_LOCAL_PORT%", NotShared)
}

// Held is what a question asks for, at last, of a connection to an address that is somebody's who does not take it. It is no name
// (RFC 6761 section 6.4), and only rows ask for it.
const Held = "held.invalid"

// askedOutside is what a sidecar's policies are asked about: the host that a question is about, or, where it names none, the address; of a
// question that comes again by an address, the name that it came by first, if there was one; and the port of the connection.
func askedOutside() []*statev3.FilterStateValue {
	to, named := "request.headers['"+HeaderTo+"']", "request.host"
	return []*statev3.FilterStateValue{
		ComputedState(wire.StateHost, named+" == '"+Held+"' || "+named+".startsWith(':') ? ("+hostIn(to)+") : ("+hostIn(named)+")", NotShared),
		ComputedState(wire.StateHost, hostIn("request.headers['"+HeaderAsked+"']"), NotShared),
		State(wire.StateAt, "%REQ("+HeaderTo+")%", NotShared),
	}
}

// hostIn is an expression for the host in an authority. A name may end in the root's dot, and is the same one.
func hostIn(authority string) string {
	return authority + ".startsWith('[') ? " + authority + ".lowerAscii().split(']')[0].replace('[', '') : " +
		"(" + authority + ".lowerAscii().split(':')[0] + '/').replace('./', '').replace('/', '')"
}

// ClientFilter keeps who made a connection, and from where, for what is asked of it and of its requests: known once its certificate was verified.
func ClientFilter() *listenerv3.Filter {
	return NetworkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{
		OnDownstreamTlsHandshake: []*statev3.FilterStateValue{
			State(wire.StateClient, "%DOWNSTREAM_PEER_URI_SAN%", NotShared),
			State(wire.StateFrom, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", NotShared),
		},
	})
}
