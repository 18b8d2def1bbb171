package envoy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/wire"
)

// MatchAnyRequest matches all requests but CONNECT.
func MatchAnyRequest() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
}

// MatchAnyTunnel matches CONNECT.
func MatchAnyTunnel() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_ConnectMatcher_{ConnectMatcher: &routev3.RouteMatch_ConnectMatcher{}}}
}

// ToCluster sends what matches to a cluster, without a limit on how long it takes.
func ToCluster(cluster string) *routev3.RouteAction {
	return &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster},
		Timeout:          durationpb.New(0),
	}
}

// ToClusterRetried is ToCluster with the retries of RetryByDefault.
func ToClusterRetried(cluster string) *routev3.RouteAction {
	a := ToCluster(cluster)
	a.RetryPolicy = RetryByDefault()
	return a
}

// TerminateConnect terminates a CONNECT here: its bytes go to the cluster as they are.
func TerminateConnect(cluster string) *routev3.RouteAction {
	a := ToCluster(cluster)
	a.UpgradeConfigs = []*routev3.RouteAction_UpgradeConfig{{
		UpgradeType: "CONNECT", ConnectConfig: &routev3.RouteAction_UpgradeConfig_ConnectConfig{},
	}}
	return a
}

// Route sends what matches on as the action says.
func Route(name string, match *routev3.RouteMatch, action *routev3.RouteAction) *routev3.Route {
	return &routev3.Route{Name: name, Match: match, Action: &routev3.Route_Route{Route: action}}
}

// Refuse answers with a text that names the host and what to do; text is a format string.
func Refuse(name string, match *routev3.RouteMatch, status uint32, body string, md *corev3.Metadata) *routev3.Route {
	return &routev3.Route{
		Name: name, Match: match, Metadata: md,
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
			Status: status, BodyFormat: text(body),
		}},
	}
}

// WithState sets values of the filter state for what takes this route.
func WithState(r *routev3.Route, values ...*statev3.FilterStateValue) *routev3.Route {
	if len(values) == 0 {
		return r
	}
	return WithFilterConfig(r, filterState, ToAny(&httpstatev3.Config{OnRequestHeaders: values}))
}

// EnableFilters turns filters on that are off where no route says so.
func EnableFilters(r *routev3.Route, filters ...string) *routev3.Route {
	for _, f := range filters {
		WithFilterConfig(r, f, turnedOn())
	}
	return r
}

// turnedOn is what turns a filter on, as it is configured.
func turnedOn() *anypb.Any { return ToAny(&routev3.FilterConfig{Config: &anypb.Any{}}) }

// turnedOff leaves a filter out.
func turnedOff() *anypb.Any { return ToAny(&routev3.FilterConfig{Disabled: true}) }

// WithFilterConfig gives a filter a configuration of the route's own, which also turns it on.
func WithFilterConfig(r *routev3.Route, filter string, config *anypb.Any) *routev3.Route {
	if r.TypedPerFilterConfig == nil {
		r.TypedPerFilterConfig = map[string]*anypb.Any{}
	}
	r.TypedPerFilterConfig[filter] = config
	return r
}

// WithFilterConfigs is that for several.
func WithFilterConfigs(r *routev3.Route, by map[string]*anypb.Any) {
	for filter, config := range by {
		WithFilterConfig(r, filter, config)
	}
}

// DecidedByMetadata notes the object behind a route for the access log.
func DecidedByMetadata(config string) *corev3.Metadata {
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"istio": fields("config", config)}}
}

// HeaderMatches is a header that the whole of an expression (RE2) matches.
func HeaderMatches(regex string) *routev3.HeaderMatcher_StringMatch {
	return &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}},
	}}
}

// headerIs is a header that is one text.
func headerIs(text string) *routev3.HeaderMatcher_StringMatch {
	return &routev3.HeaderMatcher_StringMatch{StringMatch: Exact(text)}
}

// MatchState matches a value of the filter state that the whole of an expression (RE2) matches.
func MatchState(key, regex string) *matcherv3.FilterStateMatcher {
	return &matcherv3.FilterStateMatcher{Key: key, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: regex}},
	}}}
}

// Exact matches one text.
func Exact(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

// Suffix matches how a text ends.
func Suffix(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: s}}
}

// Prefix matches how a text begins.
func Prefix(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: s}}
}

// WithRevision notes the revision of the object behind a row. Answers say it themselves.
func WithRevision(r *routev3.Route, revision string) *routev3.Route {
	said := r.GetMetadata().GetFilterMetadata()["sallyport"]
	if _, has := said.GetFields()["revision"]; revision == "" || IsAnswer(r) || has {
		return r
	}
	if r.Metadata == nil {
		r.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
	}
	now := fields("revision", revision)
	maps.Copy(now.Fields, said.GetFields())
	r.Metadata.FilterMetadata["sallyport"] = now
	return r
}

// UnregisteredRevision is the revision of what an object says about what nobody registered, and of nothing else in it.
func UnregisteredRevision(policy string, allowAny bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00outboundTrafficPolicy\x00%t", policy, allowAny))
	return hex.EncodeToString(sum[:])[:wire.RevisionDigits]
}
