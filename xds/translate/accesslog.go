package translate

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/accesslog"
)

// logTags are the values that every access log entry carries beside Envoy's own; egress/audit/envoylog reads
// them back.
var logTags = []struct{ tag, format string }{
	{accesslog.TagConfig, "%METADATA(CLUSTER:istio:config)%"},
	{accesslog.TagRole, "%METADATA(CLUSTER:sallyport:role)%"},
	{accesslog.TagPolicy, "%METADATA(ROUTE:istio:config)%"},
	{accesslog.TagAuthority, "%FILTER_STATE(" + stateAuthority + ":PLAIN)%"},
	{accesslog.TagPeer, "%FILTER_STATE(" + statePeer + ":PLAIN)%"},
	{accesslog.TagSource, "%FILTER_STATE(" + stateSource + ":PLAIN)%"},
	{accesslog.TagTarget, "%FILTER_STATE(" + stateOriginalDst + ":PLAIN)%"},
}

// accessLog streams a record of each request (http) or connection to the agent in the same pod. Envoy keeps at
// most its buffer; what it has to drop it counts, and the agent turns the count into a gap record.
func accessLog(place accesslog.Place, http bool) []*accesslogv3.AccessLog {
	return accessLogOf(place, http, "")
}

// accessLogOf is accessLog where no route says which object decides.
func accessLogOf(place accesslog.Place, http bool, policy string) []*accesslogv3.AccessLog {
	common := &grpclogv3.CommonGrpcAccessLogConfig{
		LogName: string(place),
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: alsCluster},
		}},
		TransportApiVersion: corev3.ApiVersion_V3,
		BufferFlushInterval: durationpb.New(flushInterval),
	}
	for _, t := range logTags {
		if t.tag == accesslog.TagPolicy && policy != "" {
			t.format = policy
		}
		common.CustomTags = append(common.CustomTags, &tracingv3.CustomTag{
			Tag: t.tag, Type: &tracingv3.CustomTag_Value{Value: t.format},
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
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(config)},
	}}
}
