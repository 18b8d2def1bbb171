package translate

import (
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/ondemand"
)

// Type is a type of resource, in the order in which changes are sent: what is referred to before what refers
// to it.
type Type uint8

// The types. Names are what a sidecar's DNS answers.
const (
	Cluster Type = iota
	// OnDemandCluster is a cluster that is fetched when it is first used. The agent takes all of them and hands its
	// Envoy those that are asked for, so that a gateway holds, and resolves, only the hosts in use.
	OnDemandCluster
	Endpoints
	Listener
	Route
	VirtualHost
	Name
	types
)

var urls = [types]string{
	Cluster:         "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	OnDemandCluster: ondemand.ClusterType,
	Endpoints:       "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	Listener:        "type.googleapis.com/envoy.config.listener.v3.Listener",
	Route:           "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
	VirtualHost:     "type.googleapis.com/envoy.config.route.v3.VirtualHost",
	Name:            "type.googleapis.com/sallyport.dnsproxy.v1.Name",
}

// URL is the type's name on the wire.
func (t Type) URL() string { return urls[t] }

// Types gives all of them in sending order.
func Types() []Type {
	return []Type{Cluster, OnDemandCluster, Endpoints, Listener, Route, VirtualHost, Name}
}

// ParseType finds a type by its URL.
func ParseType(url string) (Type, bool) {
	for t, u := range urls {
		if u == url {
			return Type(t), true
		}
	}
	return 0, false
}

// Resource is one sealed piece of configuration: its bytes never change again, and its version is their hash.
// All streams and classes share it.
type Resource struct {
	Type    Type
	Name    string
	Version string
	Any     *anypb.Any
}

// Ref names a resource.
type Ref struct {
	Type Type
	Name string
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// seal marshals a message for good.
func seal(t Type, name string, m proto.Message) *Resource {
	body, err := deterministic.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("translate: %s %q does not marshal: %v", t.URL(), name, err)) // only invalid UTF-8 can do that; admission refuses it
	}
	r := sealBytes(t, name, body)
	if t == OnDemandCluster {
		r.Any.TypeUrl = Cluster.URL() // to Envoy it is a cluster like others
	}
	return r
}

func sealBytes(t Type, name string, body []byte) *Resource {
	return &Resource{
		Type: t, Name: name,
		Version: strconv.FormatUint(xxhash.Sum64(body), 16),
		Any:     &anypb.Any{TypeUrl: t.URL(), Value: body},
	}
}

// packed wraps a message that is configuration inside another.
func packed(m proto.Message) *anypb.Any {
	body, err := deterministic.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("translate: %T does not marshal: %v", m, err))
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: body}
}
