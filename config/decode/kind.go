package decode

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/fields"
)

// IstioGroup is the API group of Istio's networking kinds.
const IstioGroup = "networking.istio.io"

// istioKind is one of Istio's kinds, or of ours, which are read alike. Its versions are one schema; the first is today's name.
type istioKind struct {
	group    string
	versions []string
}

var (
	network   = istioKind{IstioGroup, []string{"v1", "v1beta1", "v1alpha3"}}
	security  = istioKind{"security.istio.io", []string{"v1", "v1beta1"}}
	extension = istioKind{"extensions.istio.io", []string{"v1alpha1"}}
)

// istioKinds are those that are read. Their specs are the messages of config/fields.
var istioKinds = map[config.Kind]istioKind{
	config.KindServiceEntry: network, config.KindGateway: network, config.KindVirtualService: network,
	config.KindDestinationRule: network, config.KindSidecar: network,
	config.KindWorkloadEntry: network, config.KindWorkloadGroup: network,
	config.KindProxyConfig:         {IstioGroup, []string{"v1beta1"}},
	config.KindEnvoyFilter:         {IstioGroup, []string{"v1alpha3"}},
	config.KindAuthorizationPolicy: security, config.KindPeerAuthentication: security, config.KindRequestAuthentication: security,
	config.KindTelemetry:  {"telemetry.istio.io", []string{"v1", "v1alpha1"}},
	config.KindWasmPlugin: extension, config.KindTrafficExtension: extension,
	config.KindEgressPolicy: {v1alpha1.Group, []string{v1alpha1.Version}},
}

// IstioKind gives the API group of one of Istio's kinds, and its versions, the one to prefer first.
func IstioKind(kind config.Kind) (group string, versions []string) {
	k := istioKinds[kind]
	return k.group, k.versions
}

// istioSpec makes an empty spec of a kind.
func istioSpec(kind config.Kind) proto.Message {
	return fields.Of(string(kind)).Message.ProtoReflect().New().Interface()
}

// kubeKinds makes the object of each of Kubernetes' kinds that are read, by apiVersion and kind.
var kubeKinds = map[string]func() metav1.Object{
	"v1/Service":                        func() metav1.Object { return &corev1.Service{} },
	"v1/Pod":                            func() metav1.Object { return &corev1.Pod{} },
	"v1/Namespace":                      func() metav1.Object { return &corev1.Namespace{} },
	"v1/Secret":                         func() metav1.Object { return &corev1.Secret{} },
	"v1/ConfigMap":                      func() metav1.Object { return &corev1.ConfigMap{} },
	"v1/Node":                           func() metav1.Object { return &corev1.Node{} },
	"discovery.k8s.io/v1/EndpointSlice": func() metav1.Object { return &discoveryv1.EndpointSlice{} },
}

// fault is a problem; a harmless one does not keep the object from being used.
type fault struct {
	strict.Problem
	harmless bool
}

// read fills in what is missing of o from its JSON.
type read func(o *config.Object, plain []byte) []fault

// readerOf returns how to read that kind. For a kind that is not read it returns nil, and the kind or apiVersion that
// was probably meant, if any.
func readerOf(e envelope) (read, string) {
	group, version, _ := strings.Cut(e.APIVersion, "/")
	if k := istioKinds[e.Kind]; k.group != "" && k.group == group {
		if !slices.Contains(k.versions, version) {
			return wrongVersion(e, k), ""
		}
		return readIstio, ""
	}
	if kind, of := gatewayKindOf(e.APIVersion, string(e.Kind)); of {
		k := gatewayKinds[kind]
		if !slices.Contains(k.versions, version) {
			return wrongVersion(e, istioKind{GatewayGroup, k.versions}), ""
		}
		return readGatewayAPI(k.spec), ""
	}
	if made := kubeKinds[e.APIVersion+"/"+string(e.Kind)]; made != nil {
		return readKube(made), ""
	}
	return nil, meantBy(e)
}

func wrongVersion(e envelope, k istioKind) read {
	return func(*config.Object, []byte) []fault {
		return []fault{{Problem: strict.Problem{
			Field: "apiVersion", Value: e.APIVersion, Message: fmt.Sprintf("there is no such version of %s", e.Kind), Fix: "use " + k.group + "/" + k.versions[0],
		}}}
	}
}

// meantBy finds the kind that is read and that e is with a slip of the pen.
func meantBy(e envelope) string {
	versions := map[string]string{}
	for kind, k := range istioKinds {
		versions[string(kind)] = k.group + "/" + k.versions[0]
	}
	for id := range kubeKinds {
		i := strings.LastIndexByte(id, '/')
		versions[id[i+1:]] = id[:i]
	}
	for kind, k := range gatewayKinds {
		if name := plainName(kind); versions[name] == "" {
			versions[name] = GatewayGroup + "/" + k.versions[0]
		}
	}
	kind := strict.Closest(string(e.Kind), slices.Collect(maps.Keys(versions)))
	group, _, _ := strings.Cut(e.APIVersion, "/")
	wanted, _, _ := strings.Cut(versions[kind], "/")
	switch {
	case kind == "" || strict.Closest(group, []string{wanted}) == "":
		return ""
	case kind != string(e.Kind):
		return fmt.Sprintf("kind %s of %s", kind, versions[kind])
	default:
		return "apiVersion " + versions[kind]
	}
}
