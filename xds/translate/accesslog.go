package translate

import (
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/accesslog"
)

// tagFormats are the values that access log entries carry beside Envoy's own; egress/audit/envoylog reads them back.
var tagFormats = map[string]string{
	accesslog.TagConfig:    "%METADATA(CLUSTER:istio:config)%",
	accesslog.TagRole:      "%METADATA(CLUSTER:sallyport:role)%",
	accesslog.TagPolicy:    "%METADATA(ROUTE:istio:config)%",
	accesslog.TagRevision:  "%METADATA(ROUTE:sallyport:revision)%%METADATA(CLUSTER:sallyport:revision)%",
	accesslog.TagAuthority: "%FILTER_STATE(" + stateAuthority + ":PLAIN)%",
	accesslog.TagPeer:      "%FILTER_STATE(" + statePeer + ":PLAIN)%",
	accesslog.TagTarget:    "%FILTER_STATE(" + stateDialled + ":PLAIN)%",
	accesslog.TagSource:    "%FILTER_STATE(" + stateSource + ":PLAIN)%",
}

// askedTags are those of a connection that was asked about by this name (a format string).
func askedTags(name string) map[string]string {
	return map[string]string{
		accesslog.TagAuthority: name,
		accesslog.TagPolicy:    said(sayConfig),
		accesslog.TagRoute:     said(sayRoute),
		accesslog.TagBy:        said(sayBy),
		accesslog.TagRevision:  said(sayRevision) + "%METADATA(CLUSTER:sallyport:revision)%",
	}
}

// logTags are the tags of a place: what is known there. Each one costs each entry its share.
func logTags(place accesslog.Place) []string {
	tags := []string{accesslog.TagConfig, accesslog.TagRole, accesslog.TagPolicy, accesslog.TagRevision}
	switch place {
	case accesslog.GatewayTLS, accesslog.GatewayTCP, accesslog.ForwardTLS, accesslog.ForwardTCP:
		return append(tags, accesslog.TagAuthority, accesslog.TagPeer, accesslog.TagSource)
	default:
		return tags
	}
}

// accessLog streams a record of each request (http) or connection to the agent in the same pod. Envoy keeps at
// most its buffer; what it has to drop it counts, and the agent turns the count into a gap record.
func accessLog(place accesslog.Place, http bool) []*accesslogv3.AccessLog {
	return accessLogOf(place, http, nil)
}

// accessLogOf is accessLog with tags of its own, or other values (format strings) of those of the place.
func accessLogOf(place accesslog.Place, http bool, own map[string]string) []*accesslogv3.AccessLog {
	common := &grpclogv3.CommonGrpcAccessLogConfig{
		LogName: string(place),
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: alsCluster},
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
			format = tagFormats[tag]
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
		Filter:     worthTelling(place, own),
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: packed(config)},
	}}
}
