package admission

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// ownPorts rejects what the proxy of each pod has for itself: a listener of a host's would be a second one there.
func (r *report) ownPorts(ports []*networking.ServicePort) {
	for i, p := range ports {
		if config.IsOwnPort(p.Number) {
			r.reject(at("spec.ports", i, "number"), p.Number, "is a port of the proxy in every pod, where no host can be reached",
				"register the host at another port; spec.ports[].targetPort may be this one")
		}
	}
}

// checkBoundPorts warns of a Service's ports that pods with a proxy cannot reach. The API server took them.
func checkBoundPorts(r *report, s *corev1.Service) {
	for i, p := range s.Spec.Ports {
		if config.IsBoundPort(uint32(p.Port)) {
			r.warn(at("spec.ports", i, "port"), fmt.Sprint(p.Port), "is a port of the proxy in every pod, so pods that have one do not reach the Service at it", "give the Service another port; its targetPort may be this one")
		}
	}
}
