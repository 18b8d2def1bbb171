package config

import (
	"time"
)

// Kind is the kind of a configuration object, as users write it.
type Kind string

// The kinds that are read.
const (
	KindServiceEntry       Kind = "ServiceEntry"
	KindGateway            Kind = "Gateway"
	KindVirtualService     Kind = "VirtualService"
	KindDestinationRule    Kind = "DestinationRule"
	KindSidecar            Kind = "Sidecar"
	KindWorkloadEntry      Kind = "WorkloadEntry"
	KindWorkloadGroup      Kind = "WorkloadGroup"
	KindService            Kind = "Service"
	KindEndpointSlice      Kind = "EndpointSlice"
	KindPod                Kind = "Pod"
	KindNamespace          Kind = "Namespace"
	KindSecret             Kind = "Secret"
	KindConfigMap          Kind = "ConfigMap"
	KindNode               Kind = "Node"
	KindMeshConfig         Kind = "MeshConfig"
	KindEgressPolicy       Kind = "EgressPolicy"
	KindPeerAuthentication Kind = "PeerAuthentication"

	KindAuthorizationPolicy   Kind = "AuthorizationPolicy"
	KindRequestAuthentication Kind = "RequestAuthentication"

	// KindKeySet is nobody's object: keys that were fetched for a namespace, by their address. Its spec is a string.
	KindKeySet Kind = "KeySet"
)

// The kinds of the Gateway API. Its Gateway has the name of Istio's, and is told from it as kubectl does: by its group.
const (
	KindGatewayClass     Kind = "GatewayClass"
	KindKubeGateway      Kind = "Gateway.gateway.networking.k8s.io"
	KindListenerSet      Kind = "ListenerSet"
	KindHTTPRoute        Kind = "HTTPRoute"
	KindGRPCRoute        Kind = "GRPCRoute"
	KindTLSRoute         Kind = "TLSRoute"
	KindTCPRoute         Kind = "TCPRoute"
	KindUDPRoute         Kind = "UDPRoute"
	KindReferenceGrant   Kind = "ReferenceGrant"
	KindBackendTLSPolicy Kind = "BackendTLSPolicy"
)

// The kinds that are read and judged, and that nothing is programmed by: what config/fields says of them is what
// becomes of them.
const (
	KindProxyConfig      Kind = "ProxyConfig"
	KindTelemetry        Kind = "Telemetry"
	KindEnvoyFilter      Kind = "EnvoyFilter"
	KindWasmPlugin       Kind = "WasmPlugin"
	KindTrafficExtension Kind = "TrafficExtension"
)

// Key identifies an object. Cluster-scoped objects have no namespace.
type Key struct {
	Kind      Kind
	Namespace string
	Name      string
	// Cluster is the name of another cluster that the object was read of; "" for the own one.
	Cluster string `json:",omitempty"`
}

// In is the key of the object of that kind and name in another cluster; "" is the own one.
func (k Key) In(cluster string) Key {
	k.Cluster = cluster
	return k
}

// String gives the form that errors use: "ServiceEntry default/external".
func (k Key) String() string {
	name := k.Name
	if k.Namespace != "" {
		name = k.Namespace + "/" + name
	}
	if k.Cluster != "" {
		name += " of cluster " + k.Cluster
	}
	return string(k.Kind) + " " + name
}

// Compare orders keys by kind, namespace, name, cluster.
func (k Key) Compare(o Key) int {
	for _, p := range [...][2]string{{string(k.Kind), string(o.Kind)}, {k.Namespace, o.Namespace}, {k.Name, o.Name}, {k.Cluster, o.Cluster}} {
		if p[0] != p[1] {
			if p[0] < p[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// Object is a configuration object as its source read it. It is immutable once handed on.
type Object struct {
	Key
	Labels      map[string]string
	Annotations map[string]string
	Created     time.Time // zero when the source knows none
	// Origin says where the user finds the object: "external.yaml:3" (file and line of the document), or
	// "cluster".
	Origin string
	// Spec is the API type's value: *networking.ServiceEntry, *networking.Gateway, *networking.VirtualService,
	// *networking.DestinationRule, *networking.Sidecar, *security.PeerAuthentication (istio.io/api/networking/v1alpha3 types, which
	// networking/v1 aliases), *v1alpha1.EgressPolicy (config/api), *corev1.Service, *discoveryv1.EndpointSlice, *corev1.Pod, *corev1.Namespace,
	// *corev1.Secret, of the Gateway API its specs (sigs.k8s.io/gateway-api/apis/v1, as *HTTPRouteSpec), or, of the kinds that nothing is programmed by, the message of their table in config/fields.
	Spec any
	// Refused is why the object is not applied, although it is handed on: hosts that it is about are closed instead. See
	// admission.ClosedStandIn.
	Refused string
	// Out is why a WorkloadEntry is no endpoint of anything, though it stands: what its machine's probe says; "" of one that is. See decode.HealthChecks.
	Out string
	// Hash covers everything above but Origin: equal hashes mean nothing changed.
	Hash uint64
	// Revision tells versions of what the object says apart, in audit records: 32 hexadecimal digits over its name, its spec and the
	// annotations that count. "" for kinds that decide nothing about traffic. See decode.Stamp.
	Revision string
}

// Change replaces the object with that key, or removes it when Object is nil.
type Change struct {
	Key    Key
	Object *Object
}
