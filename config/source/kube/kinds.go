package kube

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
)

// kind is one kind of objects to watch.
type kind struct {
	config.Kind
	schema.GroupResource
	versions []string // the first that is served is watched
	custom   bool     // a CustomResourceDefinition makes it
	told     bool     // its objects have a status that says how they were judged
	selector string   // of fields: which objects are sent at all; empty for all
	// namespace is the only one that is asked about; empty for all.
	namespace string
	expected  runtime.Object
	read      func(runtime.Object) version // how to read what a reflector gives
}

// kinds are all that are watched. To add one, add a line; what is custom must be known to config/decode.
func kinds() []kind {
	return []kind{
		istio(config.KindServiceEntry, "serviceentries"),
		istio(config.KindGateway, "gateways"),
		istio(config.KindVirtualService, "virtualservices"),
		istio(config.KindDestinationRule, "destinationrules"),
		istio(config.KindSidecar, "sidecars"),
		istio(config.KindWorkloadEntry, "workloadentries"),
		istio(config.KindWorkloadGroup, "workloadgroups"),
		istio(config.KindProxyConfig, "proxyconfigs"),
		istio(config.KindEnvoyFilter, "envoyfilters"),
		istio(config.KindAuthorizationPolicy, "authorizationpolicies"),
		istio(config.KindPeerAuthentication, "peerauthentications"),
		istio(config.KindRequestAuthentication, "requestauthentications"),
		istio(config.KindTelemetry, "telemetries"),
		istio(config.KindWasmPlugin, "wasmplugins"),
		istio(config.KindTrafficExtension, "trafficextensions"),
		istio(config.KindEgressPolicy, "egresspolicies"),
		gatewayAPI(config.KindGatewayClass, "gatewayclasses"),
		gatewayAPI(config.KindKubeGateway, "gateways"),
		gatewayAPI(config.KindListenerSet, "listenersets"),
		gatewayAPI(config.KindHTTPRoute, "httproutes"),
		gatewayAPI(config.KindGRPCRoute, "grpcroutes"),
		gatewayAPI(config.KindTLSRoute, "tlsroutes"),
		gatewayAPI(config.KindTCPRoute, "tcproutes"),
		gatewayAPI(config.KindUDPRoute, "udproutes"),
		gatewayAPI(config.KindReferenceGrant, "referencegrants"),
		gatewayAPI(config.KindBackendTLSPolicy, "backendtlspolicies"),
		own(config.KindService, schema.GroupVersion{Version: "v1"}, "services", "", trimService),
		own(config.KindEndpointSlice, discoveryv1.SchemeGroupVersion, "endpointslices", "", trimSlice),
		// A pod that ended has no address any more, though it may still say one.
		own(config.KindPod, corev1.SchemeGroupVersion, "pods", "status.phase!=Succeeded,status.phase!=Failed", trimPod),
		own(config.KindNamespace, corev1.SchemeGroupVersion, "namespaces", "", trimNamespace),
		own(config.KindNode, corev1.SchemeGroupVersion, "nodes", "", trimNode),
	}
}

// istio is one of Istio's kinds, or of ours, which are read alike. All its versions are one schema.
func istio(k config.Kind, resource string) kind {
	group, versions := decode.IstioKind(k)
	out := custom(k, schema.GroupResource{Group: group, Resource: resource}, versions...)
	out.told = true
	return out
}

// gatewayAPI is one of the Gateway API's kinds. What becomes of their objects is said in statuses of the API's own; a
// ReferenceGrant has none.
func gatewayAPI(k config.Kind, resource string) kind {
	out := custom(k, schema.GroupResource{Group: decode.GatewayGroup, Resource: resource}, decode.GatewayVersions(k)...)
	out.told = k != config.KindReferenceGrant
	return out
}

// custom is a kind that a CRD makes.
func custom(k config.Kind, resource schema.GroupResource, versions ...string) kind {
	return kind{
		Kind: k, GroupResource: resource, versions: versions, custom: true, expected: &item{},
		read: func(o runtime.Object) version { return o.(*item).version },
	}
}

// own is one of Kubernetes' own kinds. What trimmed takes decides what is sent: PartialObjectMetadata is metadata only.
func own[T any, P interface {
	*T
	runtime.Object
}](k config.Kind, gv schema.GroupVersion, resource, selector string, trimmed func(P) version) kind {
	return kind{
		Kind: k, GroupResource: schema.GroupResource{Group: gv.Group, Resource: resource}, versions: []string{gv.Version},
		selector: selector, expected: P(new(T)),
		read: func(o runtime.Object) version { return trimmed(o.(P)) },
	}
}

// metadataOnly says whether only the metadata of its objects is sent.
func (k kind) metadataOnly() bool {
	_, only := k.expected.(*metav1.PartialObjectMetadata)
	return only
}
