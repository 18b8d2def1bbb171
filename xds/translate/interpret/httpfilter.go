package interpret

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	skipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/matcher/action/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	dfpfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	bridgev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_http1_reverse_bridge/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	setmetadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_metadata/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// isOff says whether a filter is left out, by the route that the request has now.
func (r *stream) isOff(f *hcmv3.HttpFilter) bool {
	own := r.ownConfig(f.Name)
	switch {
	case own == nil:
		return f.Disabled
	case own.MessageIs(&routev3.FilterConfig{}):
		return unpack(f.Name, own, &routev3.FilterConfig{}).Disabled
	default:
		return false
	}
}

// filter runs one filter, with its configuration or what the route has in its place.
func (r *stream) filter(f *hcmv3.HttpFilter) {
	config := f.GetTypedConfig()
	own := r.ownConfig(f.Name)
	r.said = nil
	if own.MessageIs(&routev3.FilterConfig{}) {
		own = unpack(f.Name, own, &routev3.FilterConfig{}).Config
	}
	switch {
	case own.MessageIs(&extauthzv3.ExtAuthzPerRoute{}): // beside how it is configured
		r.said = unpack(f.Name, own, &extauthzv3.ExtAuthzPerRoute{}).GetCheckSettings().GetContextExtensions()
	case own.MessageIs(&matchingv3.ExtensionWithMatcherPerRoute{}): // in the place of the matcher alone
		m := unpack(f.Name, config, &matchingv3.ExtensionWithMatcher{})
		m.XdsMatcher = unpack(f.Name, own, &matchingv3.ExtensionWithMatcherPerRoute{}).XdsMatcher
		r.configured(f.Name, m)
		return
	case own.GetTypeUrl() != "":
		config = own
	}
	if d := f.GetConfigDiscovery(); d != nil {
		switch {
		case config == nil || r.proxy.extension(f.Name, d) == nil: // which fails requests, whatever a route says
			r.discovered(f.Name, d)
			return
		case !config.MessageIs(&httprbacv3.RBACPerRoute{}): // that is in the place of what came
			unknown("HTTP filter %s: a route configures what comes by ECDS", f.Name)
		}
	}
	r.packed(f.Name, config)
}

// packed runs a filter of any type.
func (r *stream) packed(name string, config *anypb.Any) {
	m, err := config.UnmarshalNew()
	if err != nil {
		unknown("HTTP filter %s: %v", name, err)
	}
	r.configured(name, m)
}

// discovered runs a filter whose configuration comes by ECDS. Until it is there, requests fail.
func (r *stream) discovered(name string, by *corev3.ExtensionConfigSource) {
	config := r.proxy.extension(name, by)
	if config == nil {
		r.reply(500, "", "NFCF")
		return
	}
	r.packed(name, config)
}

// extension is what came by ECDS for a filter; nil while nothing did.
func (p *Proxy) extension(name string, by *corev3.ExtensionConfigSource) *anypb.Any {
	config := p.extensions[name]
	if config != nil && !slices.Contains(by.TypeUrls, config.TypeUrl) {
		unknown("the extension %q is of type %s, which is not asked for", name, config.TypeUrl)
	}
	return config
}

// ownConfig is what the destination, the route, its virtual host or its table says for a filter.
func (r *stream) ownConfig(filter string) *anypb.Any {
	for _, of := range []map[string]*anypb.Any{r.share.GetTypedPerFilterConfig(), r.route.GetTypedPerFilterConfig(), r.vhost.GetTypedPerFilterConfig(), r.table.config.GetTypedPerFilterConfig()} {
		if own := of[filter]; own != nil {
			return own
		}
	}
	return nil
}

// configured runs a filter.
func (r *stream) configured(name string, m proto.Message) {
	switch m := m.(type) {
	case *httprbacv3.RBAC:
		r.access(m)
	case *httprbacv3.RBACPerRoute:
		r.access(m.Rbac)
	case *jwtv3.JwtAuthentication:
		r.verify(m)
	case *extauthzv3.ExtAuthz:
		r.ask(m)
	case *httpstatev3.Config:
		r.state.set(r.scope, m.OnRequestHeaders)
		if m.ClearRouteCache {
			r.findRoute()
		}
	case *grpcwebv3.GrpcWeb: // answers and bodies
	case *setmetadatav3.Config:
		for _, said := range m.Metadata {
			r.metadata[said.MetadataNamespace] = textsOf(said.Value)
		}
	case *extprocv3.ExternalProcessor: // is told of a request that goes on
		r.step("tells %s", m.GrpcService.GetEnvoyGrpc().GetClusterName())
	case *headersv3.HeaderMutation:
	case *sessionv3.StatefulSession, *sessionv3.StatefulSessionPerRoute: // of equal endpoints, which is taken
	case *corsv3.Cors:
	case *corsv3.CorsPolicy:
		if _, asks := r.request.header("access-control-request-method"); asks && r.request.Method == "OPTIONS" {
			unknown("a browser's preflight, which a policy for it may answer")
		}
	case *faultv3.HTTPFault:
		r.fail(m.Abort)
	case *dfpfilterv3.FilterConfig:
		r.looked = true
	case *ondemandv3.OnDemand:
		r.onDemand = m.GetOdcds() != nil
	case *bridgev3.FilterConfig:
		r.bridge(m)
	case *luav3.Lua:
		r.script(m)
	case *matchingv3.ExtensionWithMatcher:
		r.matched(name, m)
	case *compositev3.Composite: // does what a matcher leads to
	case *routerv3.Router:
		r.router()
	default:
		unknown("HTTP filter %s: %T", name, m)
	}
}

// verify takes over what the request's token says, where there are rules for tokens at all.
func (r *stream) verify(m *jwtv3.JwtAuthentication) {
	if _, has := r.request.header("authorization"); has {
		unknown("a token, which somebody would have to verify")
	}
	if len(m.Rules) == 0 || r.request.Claims == nil {
		return
	}
	known := false
	for _, p := range m.Providers {
		if p.Issuer != r.request.Claims["iss"] {
			continue
		}
		known = true
		if len(p.Audiences) == 0 || slices.ContainsFunc(audienceOf(r.request.Claims["aud"]), func(a string) bool { return slices.Contains(p.Audiences, a) }) {
			r.claims = r.request.Claims
			return
		}
	}
	if known {
		r.reply(403, "jwt_authn_access_denied{Audiences_in_Jwt_are_not_allowed}", "")
	} else {
		r.reply(401, "jwt_authn_access_denied{Jwt_issuer_is_not_configured}", "")
	}
}

// audienceOf are whom a claim names: a text, or a list of them.
func audienceOf(claim any) (out []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []any:
		for _, one := range c {
			out = append(out, audienceOf(one)...)
		}
	}
	return out
}

// ask notes that an authorizer is asked, if the filter of access before says so. What it answers nobody knows here: it is taken for yes.
func (r *stream) ask(m *extauthzv3.ExtAuthz) {
	if r.said[saidTable] != "" {
		r.fetchRow(m)
		return
	}
	if s := m.GetHttpService(); s != nil && m.StatPrefix == podsTable {
		r.askTable(s, m.ClearRouteCache)
		return
	}
	if m.FilterEnabledMetadata == nil || r.metadataHolds(m.FilterEnabledMetadata) {
		r.step("asks the authorizer %s", m.StatPrefix)
		r.out.Asked = append(r.out.Asked, m.StatPrefix)
	}
}

// podsTable is what is asked by the filter for authorizers and is none: the proxy's own table of pods.
const podsTable = "pods"

// askTable asks one of the proxy's own tables about a request, and puts what its answer says into that.
func (r *stream) askTable(s *extauthzv3.HttpService, again bool) {
	q := &Request{Method: r.request.Method, Path: r.request.Path, Authority: r.request.Authority, Headers: map[string]string{}}
	for _, h := range s.AuthorizationRequest.GetHeadersToAdd() {
		q.Headers[h.Key] = r.fill(h.Value, "")
	}
	cluster := s.ServerUri.GetCluster()
	r.step("asks %s about %v", cluster, q.Headers)
	defer r.deeper()()
	asked := Outcome{}
	sub := &try{proxy: r.proxy, chance: r.chance, at: r.at, out: &asked, depth: r.depth}
	if c := r.proxy.cluster(cluster, false); c != nil {
		sub.send(&sending{cluster: c, bytes: Bytes{Request: q}, state: filterState{}})
	}
	r.out.Steps = append(r.out.Steps, asked.Steps...)
	switch {
	case asked.Response == nil:
		r.reply(503, "ext_authz_error", "UAEX")
		return
	case asked.Response.Status != 200:
		r.reply(asked.Response.Status, "ext_authz_denied", "UAEX")
		return
	}
	found := false
	for name, value := range asked.Response.Headers {
		for _, taken := range s.AuthorizationResponse.GetAllowedUpstreamHeaders().GetPatterns() {
			if matchString(taken, name) {
				r.request.Headers[name], found = value, true
			}
		}
	}
	if found && again {
		r.findRoute()
	}
}

// fail answers a share of the requests with an error.
func (r *stream) fail(a *faultv3.FaultAbort) {
	if a == nil || !r.fraction(a.Percentage, true) {
		return
	}
	switch e := a.ErrorType.(type) {
	case *faultv3.FaultAbort_HttpStatus:
		r.reply(e.HttpStatus, "fault_filter_abort", "FI")
	case *faultv3.FaultAbort_GrpcStatus:
		r.reply(200, "fault_filter_abort", "FI")
	default:
		unknown("a fault of type %T", e)
	}
}

// lookUpName is the one script that there is: it makes of a question what it is, see asPlainRequest in xds/envoy.
const lookUpName = `function envoy_on_request(request)
  local headers = request:headers()
  local name = headers:get("x-sallyport-name")
  if name then
    headers:replace(":authority", name)
    headers:replace("content-type", "application/grpc")
    headers:remove("x-sallyport-name")
  end
end
`

// script runs it.
func (r *stream) script(m *luav3.Lua) {
	if m.GetDefaultSourceCode().GetInlineString() != lookUpName {
		unknown("a script that is none of ours")
	}
	if name, ok := r.request.header("x-sallyport-name"); ok {
		r.request.Authority = name
		r.request.Headers["content-type"] = grpcType
		delete(r.request.Headers, "x-sallyport-name")
	}
	if m.ClearRouteCache == nil || m.ClearRouteCache.Value {
		r.findRoute()
	}
}

const grpcType = "application/grpc"

// isGRPC says whether Envoy takes a request for gRPC's.
func isGRPC(q *Request) bool {
	kind := q.Headers["content-type"]
	return kind == grpcType || strings.HasPrefix(kind, grpcType+"+")
}

// bridge makes a plain request of gRPC's, and gRPC's answer of an answer that has the right type.
func (r *stream) bridge(m *bridgev3.FilterConfig) {
	if !isGRPC(r.request) {
		return
	}
	if !m.WithholdGrpcFrames || m.ResponseSizeHeader != "" {
		unknown("grpc_http1_reverse_bridge: with frames")
	}
	r.request.Headers["content-type"] = m.ContentType
	r.bridged = m.ContentType
}

// unbridge is bridge for the answer.
func (r *stream) unbridge() {
	if r.bridged == "" || r.out.Response == nil {
		return
	}
	if r.out.Response.Headers["content-type"] != r.bridged {
		r.reply(200, "the answer has another type: gRPC status 2", "")
		return
	}
	r.out.Response.Headers = map[string]string{"content-type": "application/grpc"}
}

// matched runs a filter with a matcher, which may leave it out, or say what it is.
func (r *stream) matched(name string, m *matchingv3.ExtensionWithMatcher) {
	action, waits := r.onRequest(m.XdsMatcher)
	switch {
	case waits: // for the answer, before which it does nothing
	case action == nil:
		r.packed(name, m.ExtensionConfig.TypedConfig)
	case action.MessageIs(&skipv3.SkipFilter{}):
	case action.MessageIs(&compositev3.ExecuteFilterAction{}) && m.ExtensionConfig.TypedConfig.MessageIs(&compositev3.Composite{}):
		filter := unpack(name, action, &compositev3.ExecuteFilterAction{})
		if within := filter.TypedConfig; within != nil {
			r.packed(name, within.TypedConfig)
			return
		}
		d := filter.DynamicConfig
		r.step("filter %s: %s", name, d.Name)
		r.discovered(d.Name, d.ConfigDiscovery)
	default:
		unknown("a filter's matcher leads to %s", action.TypeUrl)
	}
}
