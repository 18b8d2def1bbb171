package envoy

import (
	"cmp"
	"time"

	matcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// clientRest is how long a client from outside may keep a connection without a request, where the mesh's settings do not say: longer than balancers in front do, which
// otherwise would send requests into connections that just end.
const clientRest = 15 * time.Minute

// IngressHCM reads requests that come into the mesh. What a client says of itself, and of those before it, counts as far as the
// mesh trusts proxies in front of the gateway.
func IngressHCM(route string, m mesh.Ingress) *listenerv3.Filter {
	return NetworkFilter("envoy.filters.network.http_connection_manager", ingressManager(route, m))
}

func ingressManager(route string, m mesh.Ingress) *hcmv3.HttpConnectionManager {
	rest := cmp.Or(m.IdleTimeout, clientRest)
	manager := &hcmv3.HttpConnectionManager{
		StatPrefix:        route,
		CodecType:         hcmv3.HttpConnectionManager_AUTO,
		RouteSpecifier:    byRDS(route),
		HttpFilters:       ingressFilters(),
		AccessLog:         accessLog(wire.IngressHTTP, true),
		StreamIdleTimeout: durationpb.New(idleTimeout),

		UseRemoteAddress:              wrapperspb.Bool(true),
		XffNumTrustedHops:             m.TrustedProxies,
		ForwardClientCertDetails:      clientCertificates(m.ClientCertificates),
		SetCurrentClientCertDetails:   &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Subject: wrapperspb.Bool(true), Cert: true, Dns: true, Uri: true},
		EarlyHeaderMutationExtensions: without("x-envoy-", "x-sallyport-"),
		// what the path says is what routes, and everybody behind, read
		NormalizePath:        wrapperspb.Bool(true),
		StripTrailingHostDot: true,
		Proxy_100Continue:    true, // who asks before sending a body hears it from who reads it

		ServerHeaderTransformation:      hcmv3.HttpConnectionManager_PASS_THROUGH,
		RequestHeadersTimeout:           durationpb.New(patience),
		MaxRequestHeadersKb:             wrapperspb.UInt32(96),
		HttpProtocolOptions:             &corev3.Http1ProtocolOptions{AcceptHttp_10: true},
		CommonHttpProtocolOptions:       &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(rest), HeadersWithUnderscoresAction: corev3.HttpProtocolOptions_ALLOW},
		Http2ProtocolOptions:            edgeHTTP2(),
		StreamErrorOnInvalidHttpMessage: wrapperspb.Bool(true),
		DrainTimeout:                    durationpb.New(drainTime),
		DelayedCloseTimeout:             closeWhenWritten(),
		UpgradeConfigs:                  []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
	}
	if !m.KeepSilent {
		manager.AccessLogOptions = &hcmv3.HttpConnectionManager_HcmAccessLogOptions{AccessLogFlushInterval: durationpb.New(tellEvery)}
	}
	return manager
}

// tellEvery is how often Envoy tells of a request that is under way. So its agent knows by which connections nothing was ever asked for (sidecar/tunnels), and ends those in which nothing
// moves: Envoy does not tell them from those that rest.
const tellEvery = 8 * time.Second

func clientCertificates(c mesh.ClientCertificates) hcmv3.HttpConnectionManager_ForwardClientCertDetails {
	return map[mesh.ClientCertificates]hcmv3.HttpConnectionManager_ForwardClientCertDetails{
		mesh.WriteAnew: hcmv3.HttpConnectionManager_SANITIZE_SET, mesh.Sanitize: hcmv3.HttpConnectionManager_SANITIZE,
		mesh.ForwardOnly: hcmv3.HttpConnectionManager_FORWARD_ONLY, mesh.AppendForward: hcmv3.HttpConnectionManager_APPEND_FORWARD,
		mesh.AlwaysForward: hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY,
	}[c]
}

// ingressFilters are what requests go through that come in. Those that judge who asks are always on, also of a name that a table does not have. Those that few
// routes need are off but in rows that turn them on (EnableConfigured), and do nothing there for a route that says nothing. An upgrade needs none
// (upgradesOverHTTP11): no cluster here leaves it to the server what is spoken, and what is offered says to a pod's proxy that it is the mesh that speaks.
func ingressFilters() []*hcmv3.HttpFilter {
	return append(AuthorizationRequestFilters(),
		off(httpFilter(FilterCORS, &corsv3.Cors{})), // a browser's preflight has nothing to show to an authorizer
		off(asksByRoute()),
		off(httpFilter(FilterFault, &faultv3.HTTPFault{})),
		off(translatesAsked()),
		off(sessions()),
		router(),
	)
}

// offAtIngress are the filters of an ingress gateway that are off where no row turns them on.
var offAtIngress = []string{FilterCORS, filterAsks, FilterFault, FilterWeb, FilterSession}

// EnableConfigured turns on, for all that a row of an ingress gateway is asked for, the filters that any of its routes configures, and says whether there are any. A request's
// route is found once more there when a token was verified, or an authorizer has answered, and Envoy leaves out a filter that is off by the route that was found first. The row
// is the same both times, since neither may change the host that is asked for; but where no route was found first, nothing turns a filter on: such a row needs one for all
// requests (EndsForAll).
func EnableConfigured(row *routev3.VirtualHost) bool {
	enable := func(configured map[string]*anypb.Any) {
		for _, f := range offAtIngress {
			if configured[f] == nil {
				continue
			}
			if row.TypedPerFilterConfig == nil {
				row.TypedPerFilterConfig = map[string]*anypb.Any{}
			}
			row.TypedPerFilterConfig[f] = turnedOn()
		}
	}
	for _, r := range row.Routes {
		enable(r.TypedPerFilterConfig)
		for _, share := range r.GetRoute().GetWeightedClusters().GetClusters() {
			enable(share.TypedPerFilterConfig)
		}
	}
	return len(row.TypedPerFilterConfig) > 0
}

// EndsForAll says whether a row's last route is for all requests.
func EndsForAll(row *routev3.VirtualHost) bool {
	return len(row.Routes) > 0 && proto.Equal(row.Routes[len(row.Routes)-1].Match, MatchAnyRequest())
}

// translatesAsked turns gRPC-Web into gRPC where the route says so (GRPCWebConfig): by itself it would do it anywhere.
func translatesAsked() *hcmv3.HttpFilter {
	return httpFilter(FilterWeb, &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: FilterWeb, TypedConfig: ToAny(&grpcwebv3.GrpcWeb{})},
		XdsMatcher:      &matcherv3.Matcher{OnNoMatch: skipFilter()},
	})
}

// GRPCWebConfig are those filters, as an ingress gateway's route has them do it.
func GRPCWebConfig() map[string]*anypb.Any {
	return map[string]*anypb.Any{FilterWeb: ToAny(&matchingv3.ExtensionWithMatcherPerRoute{XdsMatcher: &matcherv3.Matcher{}})}
}

// IngressTable is a table of what comes in. It has no last resort: "*" is a name like others, which somebody may have.
func IngressTable(name string, hosts InlineHosts) *routev3.RouteConfiguration {
	r := RouteTable(name, nil, hosts, true)
	r.VirtualHosts = hosts.of(name)
	r.RequestHeadersToRemove = []string{"x-envoy-original-path", "x-envoy-decorator-operation"}
	return r
}

// IngressQuestionListener is the internal listener, and the cluster in front of it, where a table of connections that come in answers questions.
func IngressQuestionListener(table string, hosts InlineHosts) []*resource.Resource {
	hcm := asksOnly(table)
	hcm.RouteSpecifier = byRDS(table)
	hcm.HttpFilters = []*hcmv3.HttpFilter{
		httpFilter("sallyport.question", &httpstatev3.Config{ClearRouteCache: true, OnRequestHeaders: []*statev3.FilterStateValue{
			sayHeader(wire.StateQuestion, HeaderKind), sayHeader(wire.StateSpoken, HeaderKind),
		}}),
		httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}),
	}
	l := InternalListener(table, nil, FilterChain("questions", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
	return append([]*resource.Resource{
		SealCluster(QuestionCluster(table)), Seal(resource.Listener, table, l), Seal(resource.Route, table, IngressTable(table, hosts)),
	}, PlaceholderRow(table, hosts)...)
}

// IngressTCPFilters asks a table where a connection goes that comes in, by name (a format string), and passes everything on to there. It is told of as soon as it got there, if begins
// says so: where requests come by the same port, as it is with those (tellEvery).
func IngressTCPFilters(table, name, kind string, log wire.Place, begins bool) []*listenerv3.Filter {
	q := Question{Table: table, Name: name, Also: map[string]string{HeaderKind: kind}}
	return append(AuthorizationConnectionFilters(), q.Filter(), RouteByAnswer(), TCPProxy{Stat: table, Cluster: wire.BlackHoleCluster, Log: log, Tags: QuestionTags(name), Begins: begins, Behind: begins}.Filter())
}

// PassTLSFilters pass TLS that comes in on to a cluster, as it is, without a question.
func PassTLSFilters(cluster string) []*listenerv3.Filter {
	return append(AuthorizationConnectionFilters(), TCPProxy{Stat: cluster, Cluster: cluster, Log: wire.IngressTLS}.Filter())
}

// PROXYProtocol reads the header of the PROXY protocol that balancers put before a connection's bytes.
// https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt
func PROXYProtocol() *listenerv3.ListenerFilter {
	return listenerFilter("envoy.filters.listener.proxy_protocol", &proxyprotocolv3.ProxyProtocol{})
}

// ServerTLS is how a gateway ends TLS of clients outside.
type ServerTLS struct {
	Certificates     []string // by the names of their secrets
	Roots            string   // of who clients may be; "" where none is asked
	Required         bool     // that a client shows a certificate
	Unverified       bool     // any certificate, or none, will do
	SANs, SPKI, Hash []string // of clients
	Min, Max         uint32   // as Envoy numbers versions; 0: as usual
	Ciphers          []string
	ALPN             []string
	OnDemand         bool // instead of Certificates: what the agent has for the name that the client says
}

// Socket makes it.
func (t ServerTLS) Socket() *corev3.TransportSocket { return TLSSocket(t.context()) }

func (t ServerTLS) context() *tlsv3.DownstreamTlsContext {
	params := MinTLS()
	if t.Min != 0 {
		params.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TlsProtocol(t.Min)
	}
	params.TlsMaximumProtocolVersion, params.CipherSuites = tlsv3.TlsParameters_TlsProtocol(t.Max), t.Ciphers
	ctx := &tlsv3.DownstreamTlsContext{
		SessionTimeout:   durationpb.New(sessionTimeout),
		CommonTlsContext: &tlsv3.CommonTlsContext{TlsParams: params, AlpnProtocols: t.ALPN},
	}
	for _, name := range t.Certificates {
		ctx.CommonTlsContext.TlsCertificateSdsSecretConfigs = append(ctx.CommonTlsContext.TlsCertificateSdsSecretConfigs, Secret(name))
	}
	if t.OnDemand { // with which Envoy resumes no sessions
		ctx.SessionTimeout, ctx.DisableStatefulSessionResumption = nil, true
		ctx.SessionTicketKeysType = &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{DisableStatelessSessionResumption: true}
		ctx.CommonTlsContext.CustomTlsCertificateSelector = certificateByName()
	}
	if t.Roots != "" {
		ctx.RequireClientCertificate = wrapperspb.Bool(t.Required)
		own := &tlsv3.CertificateValidationContext{VerifyCertificateSpki: t.SPKI, VerifyCertificateHash: t.Hash}
		if t.Unverified {
			own.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
		}
		for _, san := range t.SANs {
			for _, kind := range [...]tlsv3.SubjectAltNameMatcher_SanType{tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI} {
				own.MatchTypedSubjectAltNames = append(own.MatchTypedSubjectAltNames, SAN(kind, Exact(san)))
			}
		}
		ctx.CommonTlsContext.ValidationContextType = Validation(t.Roots, own)
	}
	return ctx
}
