package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/mesh"
)

// ProxyConfig is Istio's ProxyConfig that a Gateway with these annotations gives the pods that are deployed for it, and the field that has it: one of the annotations for its pods or,
// where it has none for them, one of its own, as Istio has it. "" for none.
func ProxyConfig(annotations map[string]string, spec *gatewayv1.GatewaySpec) (text, field string) {
	if i := spec.Infrastructure; i != nil && i.Annotations != nil {
		return string(i.Annotations[mesh.ProxyConfigAnnotation]), strict.Join("spec.infrastructure.annotations", mesh.ProxyConfigAnnotation)
	}
	return annotations[mesh.ProxyConfigAnnotation], strict.Join("metadata.annotations", mesh.ProxyConfigAnnotation)
}
