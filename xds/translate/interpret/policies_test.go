package interpret

import (
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	cncftypev3 "github.com/cncf/xds/go/xds/type/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/metadata/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	celv1 "google.golang.org/genproto/googleapis/api/expr/v1alpha1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestDiscoveredRules: a filter that comes by ECDS looks rules up by the request, which come by ECDS too. What they say is in the
// metadata, and what is not there closes.
func TestDiscoveredRules(t *testing.T) {
	index := &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "composite", TypedConfig: packed(&compositev3.Composite{})},
		XdsMatcher: inTree(headerInput("who"), true, map[string]*cncfmatcherv3.Matcher_OnMatch{
			"a/": does(&compositev3.ExecuteFilterAction{DynamicConfig: &compositev3.DynamicConfig{Name: "rules of a", ConfigDiscovery: byECDS(&httprbacv3.RBAC{})}}),
			"b/": does(&compositev3.ExecuteFilterAction{DynamicConfig: &compositev3.DynamicConfig{Name: "rules of b", ConfigDiscovery: byECDS(&httprbacv3.RBAC{})}}),
		}, nil),
	}
	refuses := &cncfmatcherv3.Matcher{OnNoMatch: ruled("would refuse", rbacv3.RBAC_DENY)}
	rules := &httprbacv3.RBAC{RulesStatPrefix: "own_", ShadowRulesStatPrefix: "own_", ShadowMatcher: refuses,
		Matcher: inTree(headerInput(":authority"), false, map[string]*cncfmatcherv3.Matcher_OnMatch{"a.test": ruled("the one", rbacv3.RBAC_ALLOW)}, ruled("the last", rbacv3.RBAC_DENY))}
	for _, c := range []struct {
		who, host string
		status    uint32
		details   string
		metadata  map[string]string
	}{
		{"a/1", "a.test", 200, "direct_response", map[string]string{
			"own_shadow_effective_policy_id": "would refuse", "own_shadow_engine_result": "denied", "own_enforced_effective_policy_id": "the one", "own_enforced_engine_result": "allowed"}},
		{"a/1", "b.test", 409, "rbac_access_denied_matched_policy[the_last]", map[string]string{
			"own_shadow_effective_policy_id": "would refuse", "own_shadow_engine_result": "denied", "own_enforced_effective_policy_id": "the last", "own_enforced_engine_result": "denied"}},
		{"b/1", "a.test", 500, "", nil},
		{"c/1", "a.test", 200, "direct_response", nil},
	} {
		p := filtered(t, &hcmv3.HttpFilter{Name: "index", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: byECDS(&matchingv3.ExtensionWithMatcher{})}},
			Resource{Name: "index", Message: &corev3.TypedExtensionConfig{Name: "index", TypedConfig: packed(index)}},
			Resource{Name: "rules of a", Message: &corev3.TypedExtensionConfig{Name: "rules of a", TypedConfig: packed(rules)}})
		out := request(t, p, &Request{Method: "GET", Authority: c.host, Path: "/", Headers: map[string]string{"who": c.who}})
		e := out.Entries[0]
		if out.Response.Status != c.status || e.Details != c.details || !maps.Equal(e.Metadata["envoy.filters.http.rbac"], c.metadata) {
			t.Errorf("%s, %s: %d, %+v", c.who, c.host, out.Response.Status, e)
		}
		if c.status == 409 && (string(out.Response.Body) != "denied by the_last, would refuse" || out.Response.Headers["why"] != c.details) {
			t.Errorf("the answer is %+v, %s", out.Response, out.Response.Body)
		}
	}
}

// TestMatchersThatWait: what asks about the answer does nothing before there is one, whatever it would do then; lines before it count.
func TestMatchersThatWait(t *testing.T) {
	refuses := does(&compositev3.ExecuteFilterAction{TypedConfig: &corev3.TypedExtensionConfig{Name: "rbac", TypedConfig: packed(&httprbacv3.RBAC{Matcher: &cncfmatcherv3.Matcher{OnNoMatch: ruled("no", rbacv3.RBAC_DENY)}})}})
	long := extended(&matcherv3.HttpResponseHeaderMatchInput{HeaderName: "content-length"})
	m := &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "composite", TypedConfig: packed(&compositev3.Composite{})},
		XdsMatcher: inTree(headerInput("who"), false, map[string]*cncfmatcherv3.Matcher_OnMatch{"nobody": refuses}, &cncfmatcherv3.Matcher_OnMatch{
			OnMatch: &cncfmatcherv3.Matcher_OnMatch_Matcher{Matcher: inTree(long, false, map[string]*cncfmatcherv3.Matcher_OnMatch{"9": refuses}, refuses)},
		}),
	}
	p := filtered(t, &hcmv3.HttpFilter{Name: "waits", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(m)}})
	for who, status := range map[string]uint32{"nobody": 409, "somebody": 200} {
		if out := request(t, p, &Request{Method: "GET", Authority: "a.test", Path: "/", Headers: map[string]string{"who": who}}); out.Response.Status != status {
			t.Errorf("%s: %d, want %d", who, out.Response.Status, status)
		}
	}
}

// TestMissingFilter: a filter that is not there yet answers 500; one of a type that was not asked for is no filter.
func TestMissingFilter(t *testing.T) {
	f := &hcmv3.HttpFilter{Name: "f", ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: byECDS(&httprbacv3.RBAC{})}}
	q := &Request{Method: "GET", Authority: "a.test", Path: "/"}
	if out := request(t, filtered(t, f), q); out.Response.Status != 500 || out.Entries[0].Flags[0] != "NFCF" {
		t.Errorf("answered %+v", out)
	}
	p := filtered(t, f, Resource{Name: "f", Message: &corev3.TypedExtensionConfig{Name: "f", TypedConfig: packed(&routerv3.Router{})}})
	if _, err := p.Connect(Connection{To: netip.MustParseAddrPort("10.0.0.1:80"), Bytes: Bytes{Request: q}}); err == nil || !strings.Contains(err.Error(), "not asked for") {
		t.Errorf("error %v", err)
	}
}

// TestMatchers: maps, lists and predicates, over what a request shows, what filters noted, and the time.
func TestMatchers(t *testing.T) {
	leads := func(name string) *cncfmatcherv3.Matcher_OnMatch { return ruled(name, rbacv3.RBAC_ALLOW) }
	exact := func(in *cncfcorev3.TypedExtensionConfig, text string) *cncfmatcherv3.Matcher_MatcherList_Predicate {
		return single(&cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{Input: in, Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{
			ValueMatch: &cncfmatcherv3.StringMatcher{MatchPattern: &cncfmatcherv3.StringMatcher_Exact{Exact: text}}}})
	}
	suffix := single(&cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{Input: stateInput("host"), Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{
		ValueMatch: &cncfmatcherv3.StringMatcher{MatchPattern: &cncfmatcherv3.StringMatcher_Suffix{Suffix: ".a.test"}}}})
	noted := custom(&networkv3.DynamicMetadataInput{Filter: "f", Path: []*networkv3.DynamicMetadataInput_PathSegment{{Segment: &networkv3.DynamicMetadataInput_PathSegment_Key{Key: "k"}}}},
		&metadatav3.Metadata{Value: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "v"}}}}})
	nowhere := &cncfmatcherv3.Matcher_OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Matcher{Matcher: &cncfmatcherv3.Matcher{}}}
	for name, c := range map[string]struct {
		m    *cncfmatcherv3.Matcher
		want string
	}{
		"nothing":                            {&cncfmatcherv3.Matcher{}, ""},
		"no condition":                       {&cncfmatcherv3.Matcher{OnNoMatch: leads("x")}, "x"},
		"exact":                              {inTree(stateInput("host"), false, map[string]*cncfmatcherv3.Matcher_OnMatch{"x.a.test": leads("x")}, leads("y")), "x"},
		"none in the map":                    {inTree(stateInput("host"), false, map[string]*cncfmatcherv3.Matcher_OnMatch{"a.test": leads("x")}, leads("y")), "y"},
		"no such state":                      {inTree(stateInput("none"), false, map[string]*cncfmatcherv3.Matcher_OnMatch{"": leads("x")}, leads("y")), "y"},
		"the longest beginning":              {inTree(stateInput("host"), true, map[string]*cncfmatcherv3.Matcher_OnMatch{"x": leads("x"), "x.a": leads("y")}, nil), "y"},
		"a longer beginning leads nowhere":   {inTree(stateInput("host"), true, map[string]*cncfmatcherv3.Matcher_OnMatch{"x": leads("x"), "x.a": nowhere}, nil), "x"},
		"the first of a list":                {inOrder(exact(stateInput("host"), "x"), leads("x"), suffix, leads("y"), exact(stateInput("host"), "x.a.test"), leads("z")), "y"},
		"a line of a list leads nowhere":     {inOrder(suffix, nowhere, exact(stateInput("host"), "x.a.test"), leads("z")), "z"},
		"not of what is missing":             {inOrder(not(exact(stateInput("none"), "x")), leads("x")), "x"},
		"metadata":                           {inOrder(noted, leads("x")), "x"},
		"before":                             {inOrder(custom(&cncfmatcherv3.HttpAttributesCelMatchInput{}, timed("_<_", "2026-01-01T00:00:01Z")), leads("x")), "x"},
		"before, at that time":               {inOrder(custom(&cncfmatcherv3.HttpAttributesCelMatchInput{}, timed("_<_", "2026-01-01T00:00:00Z")), leads("x")), ""},
		"not before, at that time":           {inOrder(custom(&cncfmatcherv3.HttpAttributesCelMatchInput{}, timed("_>=_", "2026-01-01T00:00:00Z")), leads("x")), "x"},
		"an expression that is not a time's": {inOrder(custom(&cncfmatcherv3.HttpAttributesCelMatchInput{}, timed("_<_", "soon")), leads("x")), ""},
	} {
		checkFields(name, c.m.ProtoReflect())
		s := &scope{conn: &conn{try: &try{at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}, request: &Request{}, state: filterState{"host": {text: "x.a.test"}}, metadata: map[string]map[string]string{"f": {"k": "value"}}}
		got := &rbacv3.Action{}
		if found := s.onMatch(c.m); found != nil {
			got = unpack(name, found, got)
		}
		if got.Name != c.want {
			t.Errorf("%s: %q, want %q", name, got.Name, c.want)
		}
	}
}

// filtered is a proxy that takes requests through a filter, answers them, and says in what it refuses itself what decided.
func filtered(t *testing.T, f *hcmv3.HttpFilter, more ...Resource) *Proxy {
	t.Helper()
	text := func(s string) *corev3.SubstitutionFormatString {
		return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(s)}}}}
	}
	status := func(is uint32) *accesslogv3.AccessLogFilter {
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{StatusCodeFilter: &accesslogv3.StatusCodeFilter{
			Comparison: &accesslogv3.ComparisonFilter{Op: accesslogv3.ComparisonFilter_EQ, Value: &corev3.RuntimeUInt32{DefaultValue: is}}}}}
	}
	hcm := &hcmv3.HttpConnectionManager{
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Domains: []string{"*"}, Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200}},
		}}}}}},
		HttpFilters: []*hcmv3.HttpFilter{f, {Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: packed(&routerv3.Router{})}}},
		LocalReplyConfig: &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
			{Filter: status(404)},
			{Filter: status(403), StatusCode: wrapperspb.UInt32(409), HeadersToAdd: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "why", Value: "%RESPONSE_CODE_DETAILS%"}}},
				BodyFormatOverride: text("denied by %CEL(response.code_details.split('[')[1].split(']')[0])%, %DYNAMIC_METADATA(envoy.filters.http.rbac:own_shadow_effective_policy_id)%")},
		}},
		AccessLog: []*accesslogv3.AccessLog{{ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(&grpclogv3.HttpGrpcAccessLogConfig{CommonConfig: &grpclogv3.CommonGrpcAccessLogConfig{LogName: "log"}})}}},
	}
	l := &listenerv3.Listener{Name: "l", Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "0.0.0.0", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: packed(hcm)}}}}}}
	p, err := New(append(more, Resource{Name: "l", Message: l}), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func request(t *testing.T, p *Proxy, q *Request) Outcome {
	t.Helper()
	out, err := p.Connect(Connection{To: netip.MustParseAddrPort("10.0.0.1:80"), Bytes: Bytes{Request: q}})
	if err != nil || out.Response == nil || len(out.Entries) != 1 {
		t.Fatalf("%+v, error %v", out, err)
	}
	return out
}

func byECDS(m proto.Message) *corev3.ExtensionConfigSource {
	return &corev3.ExtensionConfigSource{TypeUrls: []string{packed(m).TypeUrl}}
}

func extended(m proto.Message) *cncfcorev3.TypedExtensionConfig {
	return &cncfcorev3.TypedExtensionConfig{Name: "x", TypedConfig: packed(m)}
}

func headerInput(name string) *cncfcorev3.TypedExtensionConfig {
	return extended(&matcherv3.HttpRequestHeaderMatchInput{HeaderName: name})
}

func stateInput(key string) *cncfcorev3.TypedExtensionConfig {
	return extended(&networkv3.FilterStateInput{Key: key})
}

func does(action proto.Message) *cncfmatcherv3.Matcher_OnMatch {
	return &cncfmatcherv3.Matcher_OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Action{Action: extended(action)}}
}

func ruled(name string, action rbacv3.RBAC_Action) *cncfmatcherv3.Matcher_OnMatch {
	return does(&rbacv3.Action{Name: name, Action: action})
}

func inTree(in *cncfcorev3.TypedExtensionConfig, byPrefix bool, values map[string]*cncfmatcherv3.Matcher_OnMatch, otherwise *cncfmatcherv3.Matcher_OnMatch) *cncfmatcherv3.Matcher {
	tree := &cncfmatcherv3.Matcher_MatcherTree{Input: in}
	if m := (&cncfmatcherv3.Matcher_MatcherTree_MatchMap{Map: values}); byPrefix {
		tree.TreeType = &cncfmatcherv3.Matcher_MatcherTree_PrefixMatchMap{PrefixMatchMap: m}
	} else {
		tree.TreeType = &cncfmatcherv3.Matcher_MatcherTree_ExactMatchMap{ExactMatchMap: m}
	}
	return &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherTree_{MatcherTree: tree}, OnNoMatch: otherwise}
}

// inOrder is a list of predicates, each followed by what it leads to.
func inOrder(lines ...any) *cncfmatcherv3.Matcher {
	list := &cncfmatcherv3.Matcher_MatcherList{}
	for i := 0; i < len(lines); i += 2 {
		list.Matchers = append(list.Matchers, &cncfmatcherv3.Matcher_MatcherList_FieldMatcher{
			Predicate: lines[i].(*cncfmatcherv3.Matcher_MatcherList_Predicate), OnMatch: lines[i+1].(*cncfmatcherv3.Matcher_OnMatch),
		})
	}
	return &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherList_{MatcherList: list}}
}

func single(p *cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate) *cncfmatcherv3.Matcher_MatcherList_Predicate {
	return &cncfmatcherv3.Matcher_MatcherList_Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: p}}
}

func custom(in, matcher proto.Message) *cncfmatcherv3.Matcher_MatcherList_Predicate {
	return single(&cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{Input: extended(in),
		Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{CustomMatch: extended(matcher)}})
}

func not(p *cncfmatcherv3.Matcher_MatcherList_Predicate) *cncfmatcherv3.Matcher_MatcherList_Predicate {
	return &cncfmatcherv3.Matcher_MatcherList_Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: p}}
}

// timed compares request.time.
func timed(operator, with string) *cncfmatcherv3.CelMatcher {
	request := &celv1.Expr{ExprKind: &celv1.Expr_SelectExpr{SelectExpr: &celv1.Expr_Select{Field: "time", Operand: &celv1.Expr{ExprKind: &celv1.Expr_IdentExpr{IdentExpr: &celv1.Expr_Ident{Name: "request"}}}}}}
	at := &celv1.Expr{ExprKind: &celv1.Expr_CallExpr{CallExpr: &celv1.Expr_Call{Function: "timestamp", Args: []*celv1.Expr{
		{ExprKind: &celv1.Expr_ConstExpr{ConstExpr: &celv1.Constant{ConstantKind: &celv1.Constant_StringValue{StringValue: with}}}},
	}}}}
	//nolint:staticcheck // as proxies are given it
	return &cncfmatcherv3.CelMatcher{ExprMatch: &cncftypev3.CelExpression{ExprSpecifier: &cncftypev3.CelExpression_ParsedExpr{ParsedExpr: &celv1.ParsedExpr{
		Expr: &celv1.Expr{ExprKind: &celv1.Expr_CallExpr{CallExpr: &celv1.Expr_Call{Function: operator, Args: []*celv1.Expr{request, at}}}},
	}}}}
}
