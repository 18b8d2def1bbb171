package envoy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	dfpfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// The HTTP filters that routes configure for themselves.
const (
	FilterRBAC                = wire.RuleFilter
	filterState               = "envoy.filters.http.set_filter_state"
	FilterDynamicForwardProxy = "envoy.filters.http.dynamic_forward_proxy"
	FilterWeb                 = "envoy.filters.http.grpc_web"
	FilterFault               = "envoy.filters.http.fault"
	FilterCORS                = "envoy.filters.http.cors"
)

// HCM describes an HTTP connection manager.
type HCM struct {
	Stat    string
	Route   string // routes by this name
	Named   string // or by that of a format string
	Log     wire.Place
	Denied  bool // of that, what policies deny is logged alone
	Mesh    bool // of that, what goes to pods is logged where they do it, too
	Connect bool // CONNECT is taken
	Exit    bool // its clients are strangers: they give no orders
	Gateway bool // it faces the mesh
	Ends    bool // its agent takes note of requests that are under way: of an exit of all, else of those that leave from there
	Tunnel  bool // with Connect: it ends HBONE, and nothing else

	// Pods says that rows may ask whether a waypoint stands before a pod's own address (AskOfPods).
	Pods bool

	OnDemand bool // a cluster that is not there is asked for
	Fetch    bool // rows of its table are asked for
	Again    bool // what comes is what comes again when they were

	// Inbound says that what comes is for the pod's own app, by Routes; Peer that the client has shown who it is, and Before are filters
	// that a request goes through first.
	Inbound bool
	Peer    bool
	Routes  *routev3.RouteConfiguration
	Before  []*hcmv3.HttpFilter
}

// Filter makes the network filter.
func (m HCM) Filter() *listenerv3.Filter {
	return NetworkFilter("envoy.filters.network.http_connection_manager", m.manager())
}

func (m HCM) manager() *hcmv3.HttpConnectionManager {
	var tags map[string]string
	if m.Again {
		tags = againTags()
	}
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix:        m.Stat,
		CodecType:         hcmv3.HttpConnectionManager_AUTO,
		RouteSpecifier:    byRDS(m.Route),
		HttpFilters:       m.filters(),
		AccessLog:         accessLogOf(m.Log, true, tags, m.Mesh),
		StreamIdleTimeout: durationpb.New(idleTimeout),
		// the app's own headers go on as they are, and what proxies tell each other stays inside
		UseRemoteAddress:                wrapperspb.Bool(false),
		SkipXffAppend:                   true,
		GenerateRequestId:               wrapperspb.Bool(false),
		ForwardClientCertDetails:        hcmv3.HttpConnectionManager_SANITIZE,
		ServerHeaderTransformation:      hcmv3.HttpConnectionManager_PASS_THROUGH,
		RequestHeadersTimeout:           durationpb.New(time.Minute),
		MaxRequestHeadersKb:             wrapperspb.UInt32(96),
		HttpProtocolOptions:             &corev3.Http1ProtocolOptions{AcceptHttp_10: true},
		CommonHttpProtocolOptions:       &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(idleTimeout)},
		Http2ProtocolOptions:            http2Limits(),
		StreamErrorOnInvalidHttpMessage: wrapperspb.Bool(true),
		DelayedCloseTimeout:             closeWhenWritten(),
		LocalReplyConfig:                denials(),
		UpgradeConfigs:                  []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		// a name with the root's dot is the same name, to tables, policies and whoever is behind; HBONE names addresses
		StripTrailingHostDot: !m.Tunnel,
		Proxy_100Continue:    true, // who asks before sending a body hears it from who reads it
	}
	if m.Fetch {
		hcm.LocalReplyConfig.Mappers = append(hcm.LocalReplyConfig.Mappers, notFetched())
	}
	if m.Gateway {
		hcm.LocalReplyConfig.Mappers = append([]*hcmv3.ResponseMapper{refused()}, hcm.LocalReplyConfig.Mappers...)
	}
	if m.Named != "" {
		hcm.RouteSpecifier = byScope(headerRoutes)
		hcm.EarlyHeaderMutationExtensions = []*corev3.TypedExtensionConfig{namesTable(m.Named)}
	}
	if m.Pods {
		asksPods(hcm)
	}
	if m.Exit || m.Inbound {
		hcm.EarlyHeaderMutationExtensions = withoutProxyHeaders()
	}
	if m.Exit && m.Fetch {
		foundAnew(hcm, m.Route)
	}
	switch {
	case m.Denied && m.Tunnel:
		hcm.AccessLog = failedTunnels(hcm.AccessLog)
	case m.Denied:
		hcm.AccessLog = deniedAlone(hcm.AccessLog, true)
	}
	if m.Inbound {
		hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: m.Routes}
		hcm.LocalReplyConfig = nil
	}
	if m.Inbound || m.Peer { // its clients may be anybody who reaches the pod, or the waypoint
		hcm.RequestHeadersTimeout = durationpb.New(patience)
	}
	if m.Peer {
		hcm.ForwardClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE_SET
		hcm.SetCurrentClientCertDetails = &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Uri: true}
	}
	if m.Connect {
		hcm.UpgradeConfigs = append(hcm.UpgradeConfigs, &hcmv3.HttpConnectionManager_UpgradeConfig{UpgradeType: "CONNECT"})
		hcm.Http2ProtocolOptions.AllowConnect = true
	}
	if m.Gateway {
		hcm.RequestHeadersTimeout = durationpb.New(patience)
		hcm.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(restTime)
		hcm.DrainTimeout = durationpb.New(drainTime)
	}
	if (m.Gateway || m.Log == wire.ForwardHTTP) && !m.Ends {
		hcm.AccessLogOptions = &hcmv3.HttpConnectionManager_HcmAccessLogOptions{FlushLogOnTunnelSuccessfullyEstablished: true} // of upgrades (package tunnels)
	}
	if m.Tunnel {
		endsTunnels(hcm)
	}
	return hcm
}

// filters are what a request goes through. Each one costs every request (docs/adr/0008-what-the-path-costs.md), so those
// that few routes need are off until a route configures them; but who may use a host is always looked at.
func (m HCM) filters() []*hcmv3.HttpFilter {
	if m.Inbound {
		return append(m.Before, router())
	}
	filters := []*hcmv3.HttpFilter{off(httpFilter(filterState, &httpstatev3.Config{}))}
	switch {
	case m.Fetch && m.Exit: // what the row says that is found then counts for all filters behind
		filters = append([]*hcmv3.HttpFilter{off(httpFilter(FilterFetch, findAnew(asksAgent())))}, filters...)
	case m.Fetch:
		filters = append(filters, off(fetchRow()))
	}
	if m.Exit {
		filters = append(filters, policies()...)
		if m.Gateway { // a forward proxy follows no routes that lead elsewhere, and has nothing to ask about them
			filters = append(append(filters, authorization()...), policiesOfLed()...)
		}
		filters = append(filters, endWithRule()...)
		if m.Ends {
			filters = append(filters, underWay()...)
		}
	} else {
		for _, f := range sidecarPolicies(hostAsked(), portDialled()) {
			filters = append(filters, off(f))
		}
		if m.Ends {
			filters = append(filters, leaving()...)
		}
	}
	if m.Gateway {
		filters = append(filters, httpFilter(FilterRBAC, &httprbacv3.RBAC{}))
	}
	filters = append(filters, off(httpFilter(FilterCORS, &corsv3.Cors{})), off(httpFilter(FilterFault, &faultv3.HTTPFault{})), off(httpFilter(FilterWeb, &grpcwebv3.GrpcWeb{})), off(httpFilter(FilterDynamicForwardProxy, &dfpfilterv3.FilterConfig{
		ImplementationSpecifier:         &dfpfilterv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: dnsCache()},
		AllowDynamicHostFromFilterState: true,
	})))
	if !m.Exit {
		filters = append(filters, upgradesOverHTTP11())
	}
	if m.OnDemand {
		filters = append(filters, httpFilter("envoy.filters.http.on_demand", &ondemandv3.OnDemand{
			Odcds: &ondemandv3.OnDemandCds{Source: clustersOnDemand()},
		}))
	}
	if m.Log == wire.SidecarHTTP {
		filters = append(filters, loggedElsewhereFilters(m.Mesh)...)
	}
	return append(filters, off(sessions()), router())
}

func router() *hcmv3.HttpFilter {
	return httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true})
}

// off leaves a filter out until a route configures it.
func off(f *hcmv3.HttpFilter) *hcmv3.HttpFilter {
	f.Disabled = true
	return f
}

// clustersOnDemand is where a cluster is asked for when it is first used: at the agent, on a stream of its own. On
// the stream that all clusters come by, Envoy does not see the answer.
func clustersOnDemand() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ResourceApiVersion: corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_DELTA_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.XDSCluster},
			}}},
		}},
	}
}

func httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: ToAny(config)}}
}

// NetworkFilter is a filter of connections.
func NetworkFilter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: ToAny(config)}}
}
