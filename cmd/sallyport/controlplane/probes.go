package controlplane

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// strictProbe says which probe of a pod without a sidecar could not come: the kubelet has no certificate, and nobody tells its connections
// from those of others that the node hands on. A sidecar's pod has its probes rewritten; this one has not. "" where all can.
func strictProbe(s *registry.Snapshot, o *config.Object, pod *corev1.Pod) string {
	if !s.Mesh.MutualTLS {
		return ""
	}
	modes := s.Modes(o.Namespace, o.Labels)
	for _, c := range pod.Spec.Containers {
		for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
			port := probedPort(&c, p)
			if mode, by := modes.At(port); port != 0 && mode == registry.Strict {
				return fmt.Sprintf("the PeerAuthentication %s/%s lets only mutual TLS in (STRICT), and the kubelet's probes of port %d have none: probe by exec, or say PERMISSIVE for that port (portLevelMtls)", by.Namespace, by.Name, port)
			}
		}
	}
	return ""
}

// probedPort is the port that a probe connects to; 0 where it connects to none.
func probedPort(c *corev1.Container, p *corev1.Probe) uint32 {
	var port intstr.IntOrString
	switch {
	case p == nil:
		return 0
	case p.HTTPGet != nil:
		port = p.HTTPGet.Port
	case p.TCPSocket != nil:
		port = p.TCPSocket.Port
	case p.GRPC != nil:
		return uint32(p.GRPC.Port)
	}
	if port.Type == intstr.Int {
		return uint32(port.IntVal)
	}
	for _, named := range c.Ports {
		if named.Name == port.StrVal {
			return uint32(named.ContainerPort)
		}
	}
	return 0
}
