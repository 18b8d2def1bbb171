package resource

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/compress"
	"github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/ondemand"
)

// Type is a type of resource, in the order in which changes are sent: what is referred to before what refers
// to it.
type Type uint8

// The types. Names are what a sidecar's DNS answers.
const (
	// Secret is what a host's rule names of a Secret. Agents take those of their proxy's class and serve them to Envoy.
	Secret Type = iota
	// ServerName says which secret an ingress gateway's proxy shows for a host, where it finds that on demand.
	ServerName
	// Digest says which rows (VirtualHost) there are, to agents that ask for them by name.
	Digest
	Cluster
	// OnDemandCluster is a cluster that is fetched when it is first used. The agent takes all of them and hands its
	// Envoy those that are asked for, so that a gateway holds, and resolves, only the hosts in use.
	OnDemandCluster
	Endpoints
	// Scope leads requests that name a route table to it, at the proxy of a node.
	Scope
	Listener
	// Extension is a filter's configuration that comes apart from its listener, and after it.
	Extension
	Route
	VirtualHost
	Name
	// Pod is what the agent of a node is told of one of its pods.
	Pod
	// Probe is what a machine's agent is to ask of its application.
	Probe
	Count
)

var urls = [Count]string{
	Secret:          "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
	ServerName:      ondemand.ServerNameType,
	Digest:          digest.Type,
	Cluster:         "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	OnDemandCluster: ondemand.ClusterType,
	Endpoints:       "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	Scope:           "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration",
	Extension:       "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig",
	Listener:        "type.googleapis.com/envoy.config.listener.v3.Listener",
	Route:           "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
	VirtualHost:     "type.googleapis.com/envoy.config.route.v3.VirtualHost",
	Name:            "type.googleapis.com/sallyport.dnsproxy.v1.Name",
	Pod:             ambient.PodType,
	Probe:           health.ProbeType,
}

// URL is the type's name on the wire.
func (t Type) URL() string { return urls[t] }

// Types gives all of them in sending order.
func Types() []Type {
	return []Type{Secret, ServerName, Digest, Cluster, OnDemandCluster, Endpoints, Scope, Listener, Extension, Route, VirtualHost, Name, Pod, Probe}
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
	Version string // 16 hexadecimal digits

	kept atomic.Pointer[kept] // other bytes are never kept: only how they are
}

// Wire is the resource as it goes over a delta stream: a whole field "resources" of a DeltaDiscoveryResponse. It must not be changed.
func (r *Resource) Wire() []byte { return r.kept.Load().bytes() }

// Unversioned is Wire without the version, in two parts.
func (r *Resource) Unversioned() (head, rest []byte) {
	wire := r.Wire()
	_, tag := protowire.ConsumeVarint(wire)
	whole, _ := protowire.ConsumeBytes(wire[tag:])
	rest = whole[:len(whole)-field(compress.VersionSize)]
	return header(nil, responseResources, len(rest)), rest
}

// Size is how many bytes Wire has.
func (r *Resource) Size() int { return int(r.kept.Load().size) }

// Value is the message's own bytes, which must not be changed.
func (r *Resource) Value() []byte {
	k := r.kept.Load()
	return k.bytes()[k.value:k.end:k.end]
}

// Any wraps the message.
func (r *Resource) Any() *anypb.Any { return &anypb.Any{TypeUrl: r.Type.anyURL(), Value: r.Value()} }

// anyURL is the type of the message in a resource: to Envoy a cluster on demand is a cluster like others.
func (t Type) anyURL() string {
	if t == OnDemandCluster {
		return Cluster.URL()
	}
	return t.URL()
}

// Ref names a resource.
type Ref struct {
	Type Type
	Name string
}

var (
	deterministic = proto.MarshalOptions{Deterministic: true}
	sized         = proto.MarshalOptions{Deterministic: true, UseCachedSize: true} // right after Size
)

// Seal is a resource of a message.
func Seal(t Type, name string, m proto.Message) *Resource {
	return sealed(t, name, deterministic.Size(m), func(b []byte) []byte {
		b, err := sized.MarshalAppend(b, m)
		if err != nil {
			panic(fmt.Sprintf("translate: %s %q does not marshal: %v", t.URL(), name, err)) // only invalid UTF-8 can do that; admission refuses it
		}
		return b
	})
}

// SealBytes is Seal for a message that is bytes already.
func SealBytes(t Type, name string, body []byte) *Resource {
	return sealed(t, name, len(body), func(b []byte) []byte { return append(b, body...) })
}

// The fields that Wire is made of: envoy.service.discovery.v3.DeltaDiscoveryResponse.resources, the fields of
// envoy.service.discovery.v3.Resource, and those of google.protobuf.Any.
const (
	responseResources = 2
	resourceVersion   = 1
	resourceAny       = 2
	resourceName      = 3
	anyTypeURL        = 1
	anyValue          = 2
)

// field is the size of a length-delimited field of n bytes; the numbers above take one byte with their type.
func field(n int) int { return 1 + protowire.SizeBytes(n) }

func header(b []byte, number protowire.Number, size int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.BytesType), uint64(size))
}

// sealed writes a resource whose message has that many bytes, which appendTo appends.
func sealed(t Type, name string, size int, appendTo func([]byte) []byte) *Resource {
	url := t.anyURL()
	inAny := field(len(url)) + field(size)
	whole := field(inAny) + field(len(name)) + field(compress.VersionSize)
	b := make([]byte, 0, field(whole))
	b = header(b, responseResources, whole)
	b = header(b, resourceAny, inAny)
	b = append(header(b, anyTypeURL, len(url)), url...)
	b = header(b, anyValue, size)
	value := len(b)
	b = appendTo(b)
	end := len(b)
	r := &Resource{Type: t, Name: name, Version: compress.Version(b[value:end])}
	b = append(header(b, resourceName, len(name)), name...)
	b = append(header(b, resourceVersion, compress.VersionSize), r.Version...)
	r.kept.Store(&kept{block: &block{plain: b}, size: uint32(len(b)), value: uint32(value), end: uint32(end)})
	return r
}
