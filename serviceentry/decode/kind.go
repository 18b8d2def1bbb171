package decode

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/decode/strict"
)

// IstioGroup is the API group of Istio's kinds that are read.
const IstioGroup = "networking.istio.io"

// istioVersions are one schema; v1 is today's name.
var istioVersions = []string{"v1", "v1beta1", "v1alpha3"}

// istioSpecs makes the spec of each of Istio's kinds that are read.
var istioSpecs = map[serviceentry.Kind]func() proto.Message{
	serviceentry.KindServiceEntry:    func() proto.Message { return &networking.ServiceEntry{} },
	serviceentry.KindGateway:         func() proto.Message { return &networking.Gateway{} },
	serviceentry.KindVirtualService:  func() proto.Message { return &networking.VirtualService{} },
	serviceentry.KindDestinationRule: func() proto.Message { return &networking.DestinationRule{} },
	serviceentry.KindSidecar:         func() proto.Message { return &networking.Sidecar{} },
}

// kubeKinds makes the object of each of Kubernetes' kinds that are read, by apiVersion and kind.
var kubeKinds = map[string]func() metav1.Object{
	"v1/Service":                        func() metav1.Object { return &corev1.Service{} },
	"v1/Pod":                            func() metav1.Object { return &corev1.Pod{} },
	"v1/Namespace":                      func() metav1.Object { return &corev1.Namespace{} },
	"discovery.k8s.io/v1/EndpointSlice": func() metav1.Object { return &discoveryv1.EndpointSlice{} },
}

// fault is a problem; a harmless one does not keep the object from being used.
type fault struct {
	strict.Problem
	harmless bool
}

// read fills in what is missing of o from its JSON.
type read func(o *serviceentry.Object, plain []byte) []fault

// readerOf returns how to read that kind. For a kind that is not read it returns nil, and the kind or apiVersion that
// was probably meant, if any.
func readerOf(e envelope) (read, string) {
	group, version, _ := strings.Cut(e.APIVersion, "/")
	if group == IstioGroup && istioSpecs[e.Kind] != nil {
		if !slices.Contains(istioVersions, version) {
			return wrongVersion(e), ""
		}
		return readIstio, ""
	}
	if made := kubeKinds[e.APIVersion+"/"+string(e.Kind)]; made != nil {
		return readKube(made), ""
	}
	return nil, meantBy(e)
}

func wrongVersion(e envelope) read {
	return func(*serviceentry.Object, []byte) []fault {
		return []fault{{Problem: strict.Problem{
			Field: "apiVersion", Value: e.APIVersion, Message: fmt.Sprintf("there is no such version of %s", e.Kind), Fix: "use " + IstioGroup + "/v1",
		}}}
	}
}

// meantBy finds the kind that is read and that e is with a slip of the pen.
func meantBy(e envelope) string {
	versions := map[string]string{}
	for kind := range istioSpecs {
		versions[string(kind)] = IstioGroup + "/v1"
	}
	for id := range kubeKinds {
		i := strings.LastIndexByte(id, '/')
		versions[id[i+1:]] = id[:i]
	}
	kind := strict.Closest(string(e.Kind), slices.Collect(maps.Keys(versions)))
	group, _, _ := strings.Cut(e.APIVersion, "/")
	wanted, _, _ := strings.Cut(versions[kind], "/")
	switch {
	case kind == "" || strict.Closest(group, []string{wanted}) == "":
		return ""
	case kind != string(e.Kind) && knownIstioKind(e):
		return ""
	case kind != string(e.Kind):
		return fmt.Sprintf("kind %s of %s", kind, versions[kind])
	default:
		return "apiVersion " + versions[kind]
	}
}

// knownIstioKind says whether e is one of Istio's networking kinds that has no effect here.
func knownIstioKind(e envelope) bool {
	return slices.Contains([]string{"EnvoyFilter", "ProxyConfig", "WorkloadEntry", "WorkloadGroup"}, string(e.Kind))
}
