package envoy

import (
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/resource"
)

// SealCluster is Seal for a cluster, by its own name.
func SealCluster(c *clusterv3.Cluster) *resource.Resource { return Seal(resource.Cluster, c.Name, c) }

// SealExtension is the configuration of an extension that is asked for by ECDS, by its name.
func SealExtension(name string, config proto.Message) *resource.Resource {
	return Seal(resource.Extension, name, &corev3.TypedExtensionConfig{Name: name, TypedConfig: ToAny(config)})
}

// Seal marshals a message for good. Listeners and clusters are bounded, whoever made them.
func Seal(t resource.Type, name string, m proto.Message) *resource.Resource {
	switch m := m.(type) {
	case *listenerv3.Listener:
		bounded(m)
	case *clusterv3.Cluster:
		boundedCluster(m)
	}
	return resource.Seal(t, name, m)
}

// stable makes equal bytes of equal messages.
var stable = proto.MarshalOptions{Deterministic: true}

// ToAny wraps a message that is configuration inside another.
func ToAny(m proto.Message) *anypb.Any {
	body, err := stable.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("translate: %T does not marshal: %v", m, err))
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: body}
}
