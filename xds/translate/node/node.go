// Package node renders what the proxy of a node does for its pods: what their sidecars would do, by one Envoy.
//
// In: what outbound renders. Out: the same, connecting from the pod's network, as the pod, and saying in the log whose it was. Listeners are
// templates (xds/ambient).
package node

import (
	"maps"
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	grpclogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/grpc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/ratelimit/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Host is what a node's part is made from.
type Host struct {
	outbound.Host
	IPv6 bool // the node's kernel has it
}

// Part is one host's share of it.
func (h *Host) Part() *part.Part {
	p := *h.Host.Part()
	p.Resources = render(p.Resources, h.IPv6)
	return &p
}

// Inputs is what its base is made from.
type Inputs struct{ outbound.Inputs }

// Resources are everything that is not about single hosts.
func (in Inputs) Resources() []*resource.Resource {
	return render(in.Inputs.Resources(), in.IPv6)
}

func render(list []*resource.Resource, ipv6 bool) []*resource.Resource {
	out := slices.Clone(list)
	for i, r := range out {
		switch r.Type {
		case resource.Cluster:
			c := &clusterv3.Cluster{}
			unmarshal(r, c)
			out[i] = resource.Seal(r.Type, r.Name, envoy.ConnectFromPod(c, ipv6))
		case resource.Listener:
			l := &listenerv3.Listener{}
			unmarshal(r, l)
			out[i] = resource.Seal(r.Type, r.Name, Listener(l))
		}
	}
	return out
}

// Listener is one of a sidecar's as the node's proxy has it. What comes to a pod is of somebody else, whose certificate is in the log anyway.
func Listener(l *listenerv3.Listener) *listenerv3.Listener {
	tags := envoy.TagsOfPod
	if l.TrafficDirection == corev3.TrafficDirection_INBOUND {
		tags = map[string]string{wire.TagPod: tags[wire.TagPod]}
	}
	for _, c := range append(slices.Clone(l.FilterChains), l.DefaultFilterChain) {
		for _, f := range c.GetFilters() {
			tell(f, tags)
		}
	}
	return l
}

func unmarshal(r *resource.Resource, m proto.Message) {
	if err := proto.Unmarshal(r.Value(), m); err != nil {
		panic("translate: " + r.Name + " does not unmarshal: " + err.Error()) // it was made here
	}
}

// tell has a filter's log, and its questions, say whose a connection is.
func tell(f *listenerv3.Filter, tags map[string]string) {
	m, err := f.GetTypedConfig().UnmarshalNew()
	if err != nil {
		return
	}
	var logs []*accesslogv3.AccessLog
	switch m := m.(type) {
	case *netratelimitv3.RateLimit:
		envoy.DescribeClient(m)
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: envoy.ToAny(m)}
	case *hcmv3.HttpConnectionManager:
		logs = m.AccessLog
	case *tcpv3.TcpProxy:
		logs = m.AccessLog
	}
	if len(logs) == 0 {
		return
	}
	for _, l := range logs {
		config, err := l.GetTypedConfig().UnmarshalNew()
		if err != nil {
			continue
		}
		switch config := config.(type) {
		case *grpclogv3.HttpGrpcAccessLogConfig:
			tag(config.CommonConfig, tags)
		case *grpclogv3.TcpGrpcAccessLogConfig:
			tag(config.CommonConfig, tags)
		}
		l.ConfigType = &accesslogv3.AccessLog_TypedConfig{TypedConfig: envoy.ToAny(config)}
	}
	f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: envoy.ToAny(m)}
}

func tag(c *grpclogv3.CommonGrpcAccessLogConfig, tags map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		c.CustomTags = append(c.CustomTags, &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Value{Value: tags[name]}})
	}
}
