package envoy

import (
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/wire"
)

// TagFormats are the values that access log entries carry beside Envoy's own; egress/audit/envoylog reads them back.
var TagFormats = map[string]string{
	wire.TagConfig:    "%METADATA(CLUSTER:istio:config)%",
	wire.TagRole:      "%METADATA(CLUSTER:sallyport:role)%",
	wire.TagPolicy:    "%METADATA(ROUTE:istio:config)%",
	wire.TagRevision:  "%METADATA(ROUTE:sallyport:revision)%%METADATA(CLUSTER:sallyport:revision)%",
	wire.TagAuthority: "%FILTER_STATE(" + wire.StateAuthority + ":PLAIN)%",
	wire.TagPeer:      "%FILTER_STATE(" + wire.StatePeer + ":PLAIN)%",
	wire.TagTarget:    "%FILTER_STATE(" + wire.StateDialled + ":PLAIN)%",
	wire.TagSource:    "%FILTER_STATE(" + wire.StateSource + ":PLAIN)%",
	wire.TagTunnel:    "%FILTER_STATE(" + wire.StateTunnel + ":PLAIN)%",
	wire.TagRules:     "%FILTER_STATE(" + wire.StateRules + ":PLAIN)%",
}

// QuestionTags are those of a connection that was asked about by this name (a format string).
func QuestionTags(name string) map[string]string {
	return map[string]string{
		wire.TagAuthority: name,
		wire.TagPolicy:    AnswerFormat(sayConfig),
		wire.TagRoute:     AnswerFormat(sayRoute),
		wire.TagBy:        AnswerFormat(sayBy),
		wire.TagRevision:  AnswerFormat(sayRevision) + "%METADATA(CLUSTER:sallyport:revision)%",
	}
}

// logTags are the tags of a place: what is known there. Each one costs each entry its share.
func logTags(place wire.Place) []string {
	tags := []string{wire.TagConfig, wire.TagRole, wire.TagPolicy, wire.TagRevision}
	switch place {
	case wire.InboundHTTP, wire.InboundTCP, wire.InboundTunnel: // all of it goes to the app
		return nil
	case wire.GatewayTLS, wire.GatewayTCP, wire.ForwardTLS, wire.ForwardTCP:
		return append(tags, wire.TagAuthority, wire.TagPeer, wire.TagSource, wire.TagTunnel)
	default:
		return tags
	}
}

// accessLog streams a record of each request (http) or connection to the agent in the same pod. Envoy keeps at
// most its buffer; what it has to drop it counts, and the agent turns the count into a gap record.
func accessLog(place wire.Place, http bool) []*accesslogv3.AccessLog {
	return accessLogOf(place, http, nil, true)
}

// deniedAlone leaves of a log of what comes to a pod what policies deny, or would if they were enforced. Metadata say so, which is cheap to
// ask; but of connections that are denied, only how they ended.
func deniedAlone(log []*accesslogv3.AccessLog, http bool) []*accesslogv3.AccessLog {
	for _, l := range log {
		if http {
			l.Filter = anyOf(saidBy(wire.RuleFilter, wire.StatAuthz+wire.EnforcedResult, "denied"), saidBy(wire.RuleFilter, wire.StatAuthz+wire.ShadowResult, "denied"), tokenDenied(), authorizerDenied())
		} else {
			l.Filter = anyOf(expression("connection.termination_details.startsWith('rbac_')"), saidBy(wire.RuleFilterTCP, wire.StatAuthz+wire.ShadowResult, "denied"), authorizerDenied())
		}
	}
	return log
}

// authorizerDenied is true of what an authorizer denies, and of what is denied since it cannot be asked.
func authorizerDenied() *accesslogv3.AccessLogFilter {
	return flagged("UAEX")
}

// tokenDenied is true of requests whose token is not good. The status is cheap to ask, and the app answers with it, too.
func tokenDenied() *accesslogv3.AccessLogFilter {
	return allOf(
		anyOf(statusIs(accesslogv3.ComparisonFilter_EQ, 401), statusIs(accesslogv3.ComparisonFilter_EQ, 403)),
		expression("response.code_details.startsWith('"+wire.TokenDenied+"')"),
	)
}

// accessLogOf is accessLog, none for no place, with tags of its own, or other values (format strings) of those of the place; mesh
// as worthTelling has it.
func accessLogOf(place wire.Place, http bool, own map[string]string, mesh bool) []*accesslogv3.AccessLog {
	if place == "" {
		return nil
	}
	common := &grpclogv3.CommonGrpcAccessLogConfig{
		LogName: string(place),
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.ALSCluster},
		}},
		TransportApiVersion: corev3.ApiVersion_V3,
		BufferFlushInterval: durationpb.New(flushInterval),
	}
	tags := logTags(place)
	for _, tag := range slices.Sorted(maps.Keys(own)) {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	for _, tag := range tags {
		format, ok := own[tag]
		if !ok {
			format = TagFormats[tag]
		}
		common.CustomTags = append(common.CustomTags, &tracingv3.CustomTag{
			Tag: tag, Type: &tracingv3.CustomTag_Value{Value: format},
		})
	}
	var name string
	var config proto.Message
	if http {
		name, config = "envoy.access_loggers.http_grpc", &grpclogv3.HttpGrpcAccessLogConfig{CommonConfig: common}
	} else {
		name, config = "envoy.access_loggers.tcp_grpc", &grpclogv3.TcpGrpcAccessLogConfig{CommonConfig: common}
	}
	return []*accesslogv3.AccessLog{{
		Name:       name,
		Filter:     worthTelling(place, own, mesh),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: ToAny(config)},
	}}
}
