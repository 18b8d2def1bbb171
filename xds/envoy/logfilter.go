package envoy

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// loggedByGateway is true of what a gateway took, or refused itself: it logs that, with what it verified, and the agent
// would throw the sidecar's entry away (envoylog's toldElsewhere). So it is of what an internal listener was asked again. An entry costs each Envoy some 14 µs and the agent more, this
// expression nearly as much, so it is asked of what nothing else is known of (notLoggedElsewhere). Parts of it that Envoy does not know are errors, and what is an error is not logged; so the role
// comes last: where a status came from upstream there is a cluster, and each of ours has a role.
// What a route answered by itself, nobody else logs.
var loggedByGateway = `(response.code_details == "via_upstream" || response.code == 200 && !(response.code_details in ["` + strings.Join(wire.AnsweredLocally, `", "`) + `"])) && ` +
	`xds.cluster_metadata.filter_metadata["sallyport"]["role"] in ["` + wire.RoleGateway + `", "` + wire.RoleInner + `"]`

// worthTelling picks what is logged at a place, if not everything is: mesh says whether what gets to a pod is logged where it comes from.
func worthTelling(place wire.Place, tags map[string]string, mesh bool) *accesslogv3.AccessLogFilter {
	switch {
	case tags[wire.TagRoute] != "" && mesh:
		return anyOf(gotNowhere(), nobodyElseTells(), saidBy(FilterAsk, SayLoggedBy, LoggedAtPod))
	case tags[wire.TagRoute] != "":
		return anyOf(gotNowhere(), nobodyElseTells())
	}
	switch place {
	case wire.SidecarHTTP:
		// without a final answer there is no status that the expression could compare
		return allOf(notLoggedElsewhere(), anyOf(statusIs(accesslogv3.ComparisonFilter_LE, 199), expression("!("+loggedByGateway+")")))
	case wire.GatewayHTTP, wire.ForwardHTTP:
		// the internal listener logs the tunnels that it took
		return anyOf(notCONNECT(), statusIs(accesslogv3.ComparisonFilter_NE, 200))
	default:
		return nil
	}
}

// nobodyElseTells is true of connections whose answer (see there) names nobody who logs them too, and of those without
// an answer.
func nobodyElseTells() *accesslogv3.AccessLogFilter { return unsaidBy(FilterAsk, SayLoggedBy) }

// unsaidBy is true where a filter's metadata have nothing under a key.
func unsaidBy(filter, key string) *accesslogv3.AccessLogFilter {
	f := saidBy(filter, key, "nobody") // which no filter of ours says
	f.GetMetadataFilter().MatchIfKeyNotFound = wrapperspb.Bool(true)
	return f
}

// saidBy is true of what a filter's metadata say of it under a key.
func saidBy(filter, key, value string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_MetadataFilter{MetadataFilter: &accesslogv3.MetadataFilter{
		Matcher: &matcherv3.MetadataMatcher{
			Filter: filter,
			Path:   []*matcherv3.MetadataMatcher_PathSegment{{Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key}}},
			Value:  &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: Exact(value)}},
		},
		MatchIfKeyNotFound: wrapperspb.Bool(false),
	}}}
}

// hasSaid is true where a filter's metadata have something under any of these keys.
func hasSaid(filter string, keys []string) *accesslogv3.AccessLogFilter {
	var each []*accesslogv3.AccessLogFilter
	for _, key := range keys {
		f := saidBy(filter, key, "")
		f.GetMetadataFilter().Matcher.Value.GetStringMatch().MatchPattern = &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: ".+"}}
		each = append(each, f)
	}
	return anyOf(each...)
}

// gotNowhere is true of connections that did not get to whoever would log them.
func gotNowhere() *accesslogv3.AccessLogFilter {
	return flagged("UF", "UH", "UO", "NC")
}

// leavingBegins leaves of what is logged of connections that have got where they go those that leave, as their answer says.
func leavingBegins(log []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	for _, l := range log {
		if told := anyOf(begun(false), saidBy(FilterAsk, sayLeaves, saysLeaves)); l.Filter == nil {
			l.Filter = told
		} else {
			l.Filter = allOf(told, l.Filter)
		}
	}
	return log
}

// begunToo adds to what is logged of connections all that have got where they go.
func begunToo(log []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	for _, l := range log {
		l.Filter = anyOf(begun(true), l.Filter)
	}
	return log
}

// begun is true of what is logged when a connection has got where it goes, or of all else.
func begun(is bool) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{LogTypeFilter: &accesslogv3.LogTypeFilter{
		Types: []datav3.AccessLogType{datav3.AccessLogType_TcpUpstreamConnected}, Exclude: !is,
	}}}
}

// flagged is true of what has one of these response flags.
func flagged(flags ...string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: flags}}}
}

func allOf(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{AndFilter: &accesslogv3.AndFilter{Filters: filters}}}
}

func anyOf(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: filters}}}
}

// statusIs compares the final status, which is 0 where there is none.
func statusIs(op accesslogv3.ComparisonFilter_Op, status uint32) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
		StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
			Op: op, Value: &corev3.RuntimeUInt32{DefaultValue: status, RuntimeKey: "sallyport.log_status"}, // a key is required
		}},
	}}
}

func notCONNECT() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
			Name: ":method", InvertMatch: true,
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "CONNECT"},
			}},
		}},
	}}
}

func expression(cel string) *accesslogv3.AccessLogFilter {
	return expressionOf(&celv3.ExpressionFilter{Expression: cel})
}

// stringExpression is one that makes strings of values.
func stringExpression(cel string) *accesslogv3.AccessLogFilter {
	return expressionOf(&celv3.ExpressionFilter{Expression: cel, CelConfig: celConfig()})
}

func expressionOf(e *celv3.ExpressionFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{
		ExtensionFilter: &accesslogv3.ExtensionFilter{
			Name:       "envoy.access_loggers.extension_filters.cel",
			ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: ToAny(e)},
		},
	}}
}
