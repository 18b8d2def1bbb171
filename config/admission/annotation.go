package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/mesh"
)

// annotationPrefix begins our annotations; GatewayAnnotation picks the egress gateway of a ServiceEntry or of a
// whole Namespace: "NAMESPACE/SERVICE", or "direct" for none. MachinesAnnotation is a WorkloadGroup's, with the ranges that its machines' addresses are in,
// where their connections do not show them.
const (
	annotationPrefix   = "egress.sallyport.io/"
	GatewayAnnotation  = annotationPrefix + "gateway"
	MachinesAnnotation = annotationPrefix + "machine-addresses"
)

func (r *report) annotations() {
	for _, name := range slices.Sorted(maps.Keys(r.of.Annotations)) {
		value, field := r.of.Annotations[name], strict.Join("metadata.annotations", name)
		switch {
		case name == GatewayAnnotation:
			r.gatewayAnnotation(field, value)
		case name == MachinesAnnotation && r.of.Kind == config.KindWorkloadGroup:
			if _, err := MachineRanges(value); err != nil {
				r.reject(field, value, err.Error(), "write addresses and ranges with commas between them, like 10.1.0.0/16,192.0.2.7")
			}
		case strings.HasPrefix(name, annotationPrefix):
			fix := "remove it; the only one is " + GatewayAnnotation
			if strict.Closest(name, []string{GatewayAnnotation}) != "" {
				fix = fmt.Sprintf("did you mean %q?", GatewayAnnotation)
			}
			r.warn(field, value, "unknown annotation, it has no effect", fix)
		}
	}
}

func (r *report) gatewayAnnotation(field, value string) {
	if _, err := mesh.ParseGateway(value); err != nil {
		r.reject(field, value, "is no gateway", `write NAMESPACE/SERVICE as in "istio-system/istio-egressgateway", or "direct" for none`)
		return
	}
	switch spec := r.of.Spec.(type) {
	case *networking.ServiceEntry:
		if spec.Location == networking.ServiceEntry_MESH_INTERNAL {
			r.warn(field, value, "has no effect on a host that is inside the mesh", "set spec.location to MESH_EXTERNAL, or remove the annotation")
		}
	default:
		if r.of.Kind != config.KindNamespace {
			r.warn(field, value, fmt.Sprintf("has no effect on a %s", r.of.Kind), "put it on the ServiceEntry, or on its Namespace")
		}
	}
}
