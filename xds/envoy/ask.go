package envoy

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/config/ratelimit/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	bridgev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_http1_reverse_bridge/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ratelimit/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// Question asks where a connection goes whose bytes are nobody's business. A network filter asks it when the connection
// comes, and a table of hosts answers it; the bytes themselves pass TCP proxies only (docs/adr/0011-bytes-arrive-whole.md).
//
// The filter is Envoy's for rate limits, since that is one which asks and hears more than yes or no. It asks, in gRPC, the
// internal listener of a table, or askName, which passes the question on to that as a plain request (see straight); the row
// that is found answers by itself, with the message that the filter expects (see Answer). Without an answer the connection
// is closed.
type Question struct {
	Table string            // the cluster, and internal listener, of the table; or, asked at AllTables, a format string for its name
	All   bool              // it is asked there
	Name  string            // a format string of what is looked up in it
	Also  map[string]string // header → format string
}

// The headers of questions. Nobody else's request gets to where they are read, so nobody else can write them.
const (
	headerName  = "x-sallyport-name"   // what is looked up
	HeaderTable = ondemand.TableHeader // the table that is asked
	HeaderKind  = wire.HeaderKind
	HeaderTo    = ondemand.ToHeader    // the address that the client connected to
	HeaderRange = ondemand.RangeHeader // what is asked for after an address that nobody has, "host:port"
	HeaderPeer  = wire.HeaderPeer
	HeaderFrom  = wire.HeaderFrom
	// HeaderAsked is what was asked before, of a question that comes again: "sni:port", ":port" for TLS that shows no name, or the
	// connection's address, where a range is asked for.
	HeaderAsked = "x-sallyport-asked"
	// HeaderSilent is "yes" in questions about connections whose client has said nothing yet (MatchSilent).
	HeaderSilent = "x-sallyport-silent"
	// HeaderFetched is there when the rows that a question may be for have been fetched (FetchQuestionRoute).
	HeaderFetched = ondemand.FetchedHeader
)

// What a question says of the bytes.
const (
	KindTLS = wire.KindTLS
	KindTCP = wire.KindTCP

	KindHTTP = wire.KindHTTP
)

// askHeaders are all headers of a question beside its name and table, in order.
var askHeaders = []string{HeaderKind, HeaderTo, HeaderRange, HeaderSilent, HeaderPeer, HeaderFrom, wire.HeaderRegisteredIn, wire.HeaderDialled}

// askName is the internal listener, and the cluster in front of it, that questions go to which do not go straight to their table.
const askName = "ask"

// AskedStraight says whether questions go straight to a table. That is half as dear as the detour, and the script that it needs costs an
// Envoy with one worker some 190 KiB for each such table. So it is for those that most questions go to: a gateway's only one, and
// that of the port of TLS.
func AskedStraight(table string) bool {
	return table == wire.ExitDecide || table == AllTables || wire.SharedName(table) == wire.DecideName(443)
}

// unsaid is a content type that is not gRPC's. Envoy makes an error of what it answers by itself to gRPC, and rows answer by
// themselves, so a question does not say what it is until it is past the place where Envoy looks (asPlainRequest).
const unsaid = "unsaid"

// Filter asks.
func (q Question) Filter() *listenerv3.Filter {
	service := &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: askName}}}
	add := func(key, value string) {
		if value != "" {
			service.InitialMetadata = append(service.InitialMetadata, &corev3.HeaderValue{Key: key, Value: value})
		}
	}
	add(headerName, q.Name)
	switch {
	case q.All:
		service.GetEnvoyGrpc().ClusterName = AllTables
		add("content-type", unsaid)
		add(HeaderTable, q.Table)
	case AskedStraight(q.Table):
		service.GetEnvoyGrpc().ClusterName = q.Table
		add("content-type", unsaid)
	default:
		add(HeaderTable, q.Table)
	}
	for _, h := range askHeaders {
		add(h, q.Also[h])
	}
	return NetworkFilter(FilterAsk, &netratelimitv3.RateLimit{
		StatPrefix: "ask", Domain: "sallyport",
		// what is said here is not read; something has to be
		Descriptors:     []*descriptorv3.RateLimitDescriptor{{Entries: []*descriptorv3.RateLimitDescriptor_Entry{{Key: "where", Value: "to"}}}},
		Timeout:         durationpb.New(patience),
		FailureModeDeny: true,
		RateLimitService: &ratelimitv3.RateLimitServiceConfig{
			GrpcService: service, TransportApiVersion: corev3.ApiVersion_V3,
		},
	})
}

// FilterAsk is the network filter, by whose name its answers are found.
const FilterAsk = wire.AnswerFilter

// QuestionListeners takes the questions, and hands them to the tables that they name.
func QuestionListeners() []*resource.Resource {
	hcm := asksOnly(askName)
	hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name: askName,
		VirtualHosts: []*routev3.VirtualHost{{Name: askName, Domains: []string{"*"}, Routes: []*routev3.Route{{
			Name: askName,
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}, Headers: []*routev3.HeaderMatcher{
				{Name: headerName, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}},
			}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier:     &routev3.RouteAction_ClusterHeader{ClusterHeader: HeaderTable},
				HostRewriteSpecifier: &routev3.RouteAction_HostRewriteHeader{HostRewriteHeader: headerName},
				Timeout:              durationpb.New(patience),
			}},
		}}}},
	}}
	hcm.HttpFilters = []*hcmv3.HttpFilter{
		bridge(),
		httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}),
	}
	l := InternalListener(askName, nil, FilterChain("questions", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
	return []*resource.Resource{SealCluster(QuestionCluster(askName)), Seal(resource.Listener, askName, l)}
}

// QuestionCluster is a cluster that takes questions.
func QuestionCluster(listener string) *clusterv3.Cluster {
	c := InternalCluster(listener)
	options := overHTTP2(http2Limits())
	options.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idleTimeout)}
	c.TypedExtensionProtocolOptions = HTTPOptions(options)
	return c
}

// asksOnly is a connection manager for questions. It logs nothing: what a connection's end says, with its bytes, is more.
func asksOnly(stat string) *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		StatPrefix:                 stat,
		CodecType:                  hcmv3.HttpConnectionManager_HTTP2,
		StreamIdleTimeout:          durationpb.New(patience),
		UseRemoteAddress:           wrapperspb.Bool(false),
		SkipXffAppend:              true,
		GenerateRequestId:          wrapperspb.Bool(false),
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		RequestHeadersTimeout:      durationpb.New(patience),
		CommonHttpProtocolOptions:  &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idleTimeout)},
		Http2ProtocolOptions:       http2Limits(),
	}
}

// plainRequestScript is the script that makes of a question what it is: gRPC, which the filter after it makes a plain request of, for
// the name that it asks about. Nothing else that Envoy has writes an authority. A question that comes again has become all that.
const plainRequestScript = `function envoy_on_request(request)
  local headers = request:headers()
  local name = headers:get("` + headerName + `")
  if name then
    headers:replace(":authority", name)
    headers:replace("content-type", "application/grpc")
    headers:remove("` + headerName + `")
  end
end
`

func asPlainRequest() *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.lua", &luav3.Lua{
		DefaultSourceCode: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: plainRequestScript}},
		ClearRouteCache:   wrapperspb.Bool(false), // a filter behind does
	})
}

// bridge makes a plain request of gRPC's, and gRPC's answer of the answer. What a row answers with is said to be text, because
// Envoy says so of all that it answers by itself.
func bridge() *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.grpc_http1_reverse_bridge", &bridgev3.FilterConfig{ContentType: "text/plain", WithholdGrpcFrames: true})
}

// TableOwner is whose table answers questions.
type TableOwner int

// Those that there are.
const (
	AskedOfPod      TableOwner = iota // a sidecar's, or a node's: about connections of pods
	AskedOfGateway                    // an egress gateway's: about those of clients that it verified
	AskedOfForward                    // a forward proxy's: by its agent alone, about what is open (package tunnels)
	AskedOfWaypoint                   // a waypoint's, before hosts outside: about those of clients that it verified
	AskedAgain                        // the same by its agent alone, about what is open (package tunnels)
)

// verified says whether clients have shown who they are.
func (a TableOwner) verified() bool {
	return a == AskedOfGateway || a == AskedOfWaypoint || a == AskedAgain
}

// TableListener is the internal listener where a table answers questions; or, AllTables, all of them, each those that name it. What they say of the connection is put where the
// table's routes look for what they would know of a request's own connection.
func TableListener(name, table string, asked TableOwner) *listenerv3.Listener {
	return tableListener(name, table, asked, false)
}

func tableListener(name, table string, asked TableOwner, fetches bool) *listenerv3.Listener {
	hcm := asksOnly(name)
	hcm.RouteSpecifier = byRDS(table)
	if fetches {
		foundAnew(hcm, table)
	}
	if name == AllTables {
		hcm.RouteSpecifier = byScope(HeaderTable)
	}
	asks := HeaderKind
	if asked != AskedOfPod { // by the agent, of what was a request (package tunnels)
		asks += "?" + wire.HeaderRequest
	}
	said := []*statev3.FilterStateValue{
		sayHeader(wire.StateQuestion, asks), sayHeader(wire.StateSpoken, HeaderKind), sayHeader(wire.StateOriginalDst, HeaderTo),
		sayHeader(wire.StateClient, HeaderPeer), sayHeader(wire.StateFrom, HeaderFrom),
	}
	if AskedStraight(name) {
		hcm.HttpFilters = append(hcm.HttpFilters, asPlainRequest(), bridge())
	}
	if asked.verified() {
		hcm.HttpFilters = append(hcm.HttpFilters, httpFilter("sallyport.one_name", oneNameAsked()))
	}
	hcm.HttpFilters = append(hcm.HttpFilters,
		httpFilter("sallyport.question", &httpstatev3.Config{ClearRouteCache: true, OnRequestHeaders: said}),
	)
	if fetches {
		hcm.HttpFilters = append(hcm.HttpFilters, fetchForQuestion()...)
	}
	switch kept := policies(); asked {
	case AskedOfGateway:
		hcm.HttpFilters = append(append(hcm.HttpFilters, kept...), off(authorizedBy(FilterCustom)), off(authorizedBy(FilterAuthz)))
	case AskedOfForward:
		hcm.HttpFilters = append(hcm.HttpFilters, kept...)
	case AskedOfWaypoint, AskedAgain: // its AuthorizationPolicies are asked before there is a question, and its rows for requests turn nothing on
		for _, f := range kept {
			f.Disabled = false
		}
		hcm.HttpFilters = append(hcm.HttpFilters, kept...)
		if asked == AskedAgain {
			hcm.HttpFilters = append(hcm.HttpFilters, httpFilter(filterAuthzAgain, &httprbacv3.RBAC{}))
		}
	case AskedOfPod:
		// a filter that looks at its row has it found, which those that put values into the filter state do not
		hcm.HttpFilters = append(hcm.HttpFilters, httpFilter("sallyport.row", &httprbacv3.RBAC{}))
		hcm.HttpFilters = append(hcm.HttpFilters, sidecarPolicies(askedOutside()...)...)
	}
	hcm.LocalReplyConfig = deniedAnswers(asked.verified())
	hcm.HttpFilters = append(hcm.HttpFilters,
		httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}),
	)
	return InternalListener(name, nil, FilterChain("questions", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
}

// PlainTableListener is the internal listener of a table that says no more than where something goes: no policy is asked about it there.
func PlainTableListener(name, table string) *listenerv3.Listener {
	hcm := asksOnly(name)
	hcm.RouteSpecifier = byRDS(table)
	hcm.HttpFilters = []*hcmv3.HttpFilter{
		httpFilter("sallyport.question", &httpstatev3.Config{ClearRouteCache: true, OnRequestHeaders: []*statev3.FilterStateValue{sayHeader(wire.StateQuestion, HeaderKind)}}),
		httpFilter("sallyport.row", &httprbacv3.RBAC{}),
		httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}),
	}
	return InternalListener(name, nil, FilterChain("questions", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
}

// oneNameAsked leaves questions without an answer that are about a client with several URI names, as oneName does
// for requests: a tunnel in which the server speaks first is decided before that could look.
func oneNameAsked() *httprbacv3.RBAC {
	return &httprbacv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{"several-names": {
		Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}},
		Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Header{Header: &routev3.HeaderMatcher{
			Name: HeaderPeer, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Contains{Contains: ","},
			}},
		}}}},
	}}}}
}
