package admission

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkTCPPorts warns of ports at which, by the mesh's settings, proxies do not read what an entry says that is spoken there.
func (w *world) checkTCPPorts(r *report, s *networking.ServiceEntry) {
	for i, p := range s.Ports {
		w.checkUnreadPort(r, at("spec.ports", i, "protocol"), p.Protocol, p.Number, registry.ParseProtocol(p.Protocol))
	}
}

// checkServicePorts is the same for a Service, whose ports say it by their names.
func (w *world) checkServicePorts(r *report, s *corev1.Service) {
	for i, p := range s.Spec.Ports {
		if p.AppProtocol != nil {
			w.checkUnreadPort(r, at("spec.ports", i, "appProtocol"), *p.AppProtocol, uint32(p.Port), registry.KubeProtocol(p))
		} else {
			w.checkUnreadPort(r, at("spec.ports", i, "name"), p.Name, uint32(p.Port), registry.KubeProtocol(p))
		}
	}
}

func (w *world) checkUnreadPort(r *report, field, value string, port uint32, protocol registry.Protocol) {
	if protocol == registry.TCP || protocol == registry.UDP || !slices.Contains(w.cfg.TCPPorts, port) {
		return
	}
	r.warn(field, value, fmt.Sprintf("by the mesh settings (sallyport.tcpPorts) proxies take port %d for TCP: they read no names and no requests there, and go by addresses", port),
		"use another port, or take the port out of sallyport.tcpPorts")
}
