package envoy

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/wire"
)

// DecidedInOneTag has a listener's logs say in one tag what they say in four (wire.TagDecided): each tag costs each entry its share. It is false where none does,
// and the listener is as it was.
func DecidedInOneTag(l *listenerv3.Listener) bool {
	joined := joinDecided(l.AccessLog)
	for _, c := range append(slices.Clone(l.FilterChains), l.DefaultFilterChain) {
		for _, f := range c.GetFilters() {
			joined = joinDecidedOf(f) || joined
		}
	}
	return joined
}

// joinDecidedOf is that of a filter that logs.
func joinDecidedOf(f *listenerv3.Filter) bool {
	var m interface {
		proto.Message
		GetAccessLog() []*accesslogv3.AccessLog
	}
	switch of := f.GetTypedConfig(); {
	case of.MessageIs((*hcmv3.HttpConnectionManager)(nil)):
		m = &hcmv3.HttpConnectionManager{}
	case of.MessageIs((*tcpv3.TcpProxy)(nil)):
		m = &tcpv3.TcpProxy{}
	default:
		return false
	}
	if f.GetTypedConfig().UnmarshalTo(m) != nil || !joinDecided(m.GetAccessLog()) {
		return false
	}
	f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: ToAny(m)}
	return true
}

func joinDecided(logs []*accesslogv3.AccessLog) (joined bool) {
	for _, l := range logs {
		var m interface {
			proto.Message
			GetCommonConfig() *grpclogv3.CommonGrpcAccessLogConfig
		}
		switch of := l.GetTypedConfig(); {
		case of.MessageIs((*grpclogv3.HttpGrpcAccessLogConfig)(nil)):
			m = &grpclogv3.HttpGrpcAccessLogConfig{}
		case of.MessageIs((*grpclogv3.TcpGrpcAccessLogConfig)(nil)):
			m = &grpclogv3.TcpGrpcAccessLogConfig{}
		default:
			continue
		}
		if l.GetTypedConfig().UnmarshalTo(m) != nil {
			continue
		}
		common := m.GetCommonConfig()
		tags := decidedTag(common.GetCustomTags())
		if tags == nil {
			continue
		}
		common.CustomTags = tags
		l.ConfigType = &accesslogv3.AccessLog_TypedConfig{TypedConfig: ToAny(m)}
		joined = true
	}
	return joined
}

// decidedTag are the tags with one in place of wire.DecidedTags; nil where not all of those are there.
func decidedTag(tags []*tracingv3.CustomTag) []*tracingv3.CustomTag {
	var values [len(wire.DecidedTags)]string
	for i, name := range wire.DecidedTags {
		at := slices.IndexFunc(tags, func(t *tracingv3.CustomTag) bool { return t.Tag == name })
		if at < 0 {
			return nil
		}
		values[i] = tags[at].GetValue()
	}
	out := []*tracingv3.CustomTag{{Tag: wire.TagDecided, Type: &tracingv3.CustomTag_Value{Value: wire.JoinDecided(values)}}}
	for _, t := range tags {
		if !slices.Contains(wire.DecidedTags[:], t.Tag) {
			out = append(out, t)
		}
	}
	return out
}
