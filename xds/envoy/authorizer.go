package envoy

import (
	"strings"

	mutationrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	extauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netextauthzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/wire"
)

// Authorizer is who is asked whether a request, or a connection, may pass, where the filter of access before says that it is.
type Authorizer struct {
	*mesh.Authorizer
	Cluster string
	// Fixed says that neither the host nor the path of a request may be otherwise for it, nor its route: others have judged these already.
	Fixed bool
}

// Requests is the filter that asks about them.
func (a Authorizer) Requests() *extauthzv3.ExtAuthz {
	f := &extauthzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3, StatPrefix: a.Name,
		FilterEnabledMetadata: asksIn(wire.RuleFilter),
		FailureModeAllow:      a.FailOpen,
		StatusOnError:         &typev3.HttpStatus{Code: typev3.StatusCode(a.StatusOnError)},
		ClearRouteCache:       a.ClearRouteCache && !a.Fixed,
		// what proxies tell each other is not an authorizer's to say
		DecoderHeaderMutationRules: &mutationrulesv3.HeaderMutationRules{
			AllowAllRouting: wrapperspb.Bool(!a.Fixed), DisallowSystem: wrapperspb.Bool(a.Fixed), AllowEnvoy: wrapperspb.Bool(false),
		},
	}
	if b := a.Body; b != nil {
		f.WithRequestBody = &extauthzv3.BufferSettings{MaxRequestBytes: b.Most, AllowPartialMessage: b.Partial, PackAsBytes: b.Raw}
	}
	if a.GRPC {
		f.Services = &extauthzv3.ExtAuthz_GrpcService{GrpcService: a.service()}
		return f
	}
	f.AllowedHeaders = headersLike(a.SentHeaders)
	service := &extauthzv3.HttpService{
		PathPrefix: a.PathPrefix,
		ServerUri: &corev3.HttpUri{
			Uri: "http://" + wire.HostPort(a.Host, a.Port), Timeout: durationpb.New(a.Timeout), // of the URI nothing is read
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: a.Cluster},
		},
		AuthorizationResponse: &extauthzv3.AuthorizationResponse{
			AllowedUpstreamHeaders: headersLike(a.Upstream), AllowedClientHeaders: headersLike(a.OnDeny), AllowedClientHeadersOnSuccess: headersLike(a.OnAllow),
		},
	}
	if len(a.Added) > 0 {
		service.AuthorizationRequest = &extauthzv3.AuthorizationRequest{}
	}
	for _, h := range a.Added {
		service.AuthorizationRequest.HeadersToAdd = append(service.AuthorizationRequest.HeadersToAdd, &corev3.HeaderValue{Key: h.Name, Value: strings.ReplaceAll(h.Value, "%", "%%")}) // Envoy reads a format
	}
	f.Services = &extauthzv3.ExtAuthz_HttpService{HttpService: service}
	return f
}

// Connections is the filter that asks about those whose bytes nobody reads. It needs one that is asked by gRPC.
func (a Authorizer) Connections() *netextauthzv3.ExtAuthz {
	return &netextauthzv3.ExtAuthz{
		StatPrefix: a.Name, TransportApiVersion: corev3.ApiVersion_V3,
		FilterEnabledMetadata: asksIn(wire.RuleFilterTCP), FailureModeAllow: a.FailOpen, GrpcService: a.service(),
	}
}

func (a Authorizer) service() *corev3.GrpcService {
	return &corev3.GrpcService{
		Timeout: durationpb.New(a.Timeout),
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
			ClusterName: a.Cluster, Authority: wire.HostPort(a.Host, a.Port), // a cluster's name is no authority
		}},
	}
}

// NoAuthorizer are the rules of a filter that asks nobody, in the place of one that would: what the filter before noted all the same is denied. The two
// are taken one after the other, so for a moment one may be of before an edit and the other of after it.
func NoAuthorizer() *httprbacv3.RBAC {
	return &httprbacv3.RBAC{RulesStatPrefix: wire.StatAsked, Rules: deniesNoted(wire.RuleFilter)}
}

// NoConnectionAuthorizer are the same of connections.
func NoConnectionAuthorizer() *netrbacv3.RBAC {
	return &netrbacv3.RBAC{StatPrefix: wire.StatAsked, Rules: deniesNoted(wire.RuleFilterTCP)}
}

// deniesNoted denies what was noted for others than some authorizers.
func deniesNoted(by string, but ...Authorizer) *rbacv3.RBAC {
	why := wire.Rule{Verdict: wire.RuleDenies, Reason: "its provider was not asked, since the proxy was being told of another policy"}
	of := func(m *matcherv3.MetadataMatcher) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{MetadataMatcher: m, MetadataSource: rbacv3.MetadataSource_DYNAMIC}}}
	}
	noted := of(asksIn(by))
	if len(but) > 0 {
		all := []*rbacv3.Permission{noted}
		for _, a := range but {
			all = append(all, &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: of(asksOf(a.Name, by))}})
		}
		noted = &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: all}}}
	}
	anybody := &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
	return &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: map[string]*rbacv3.Policy{
		why.String(): {Permissions: []*rbacv3.Permission{noted}, Principals: []*rbacv3.Principal{anybody}},
	}}
}

// asksIn is true of what a filter of access noted that a rule means.
func asksIn(filter string) *matcherv3.MetadataMatcher {
	return &matcherv3.MetadataMatcher{
		Filter: filter,
		Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: wire.StatAsked + wire.ShadowResult}}},
		Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: Exact("denied")}},
	}
}

// asksOf is true of what a filter of access noted that a rule means which has this provider asked.
func asksOf(provider, filter string) *matcherv3.MetadataMatcher {
	m := asksIn(filter)
	m.Path[0].Segment = &matcherv3.MetadataMatcher_PathSegment_Key{Key: wire.StatAsked + wire.ShadowRule}
	m.Value.MatchPattern = &matcherv3.ValueMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: wire.AskingRule(provider)}},
	}}
	return m
}

// AuthorizerFilters are the filters of requests that ask each authorizer about what the filter of access before noted for it, where the policies of each table name one of
// their own. What was noted for one that is not among them, since the table is of after an edit of the mesh's settings and the filters are of before, is denied.
func AuthorizerFilters(list []Authorizer) []*hcmv3.HttpFilter {
	if len(list) == 0 {
		return []*hcmv3.HttpFilter{askAuthorizer()} // nobody, which denies what is noted
	}
	var out []*hcmv3.HttpFilter
	for _, a := range list {
		f := a.Requests()
		f.FilterEnabledMetadata = asksOf(a.Name, wire.RuleFilter)
		out = append(out, httpFilter(FilterAuthorizer+"."+a.Name, f))
	}
	unknown := &httprbacv3.RBAC{RulesStatPrefix: wire.StatAsked, Rules: deniesNoted(wire.RuleFilter, list...)}
	return append(out, httpFilter(FilterAuthorizer, unknown))
}

// AskAbout notes which connections an authorizer is asked about, and asks it.
func (a Authorizer) AskAbout(about *netrbacv3.RBAC) []*listenerv3.Filter {
	return []*listenerv3.Filter{NetworkFilter(FilterCustomConnections, about), NetworkFilter(FilterAuthorizerConnections, a.Connections())}
}

// CloseMatching closes the connections that nobody can be asked about.
func CloseMatching(about *netrbacv3.RBAC) *listenerv3.Filter {
	return NetworkFilter(FilterCustomConnections, about)
}

// headersLike are headers by their names: exact, "name*" or "*name"; nil for none.
func headersLike(names []string) *matcherv3.ListStringMatcher {
	var out []*matcherv3.StringMatcher
	for _, name := range names {
		m := Exact(name)
		if rest, ok := strings.CutSuffix(name, "*"); ok {
			m = Prefix(rest)
		} else if rest, ok := strings.CutPrefix(name, "*"); ok {
			m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: rest}}
		}
		if name == "*" {
			m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".*"}}}
		} else {
			m.IgnoreCase = true
		}
		out = append(out, m)
	}
	if out == nil {
		return nil
	}
	return &matcherv3.ListStringMatcher{Patterns: out}
}
