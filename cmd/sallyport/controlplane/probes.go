package controlplane

import (
	"fmt"
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// strictProbe says which probe or hook of a pod without a sidecar could not come: the kubelet has no certificate, and nobody tells its
// connections from those of others that the node hands on. A sidecar's pod has them rewritten; this one has not. "" where all can.
func strictProbe(s *registry.Snapshot, o *config.Object, pod *corev1.Pod) string {
	if !s.Mesh.MutualTLS {
		return ""
	}
	modes := s.Modes(o.Namespace, o.Labels)
	for asked := range kubeletAsks(pod) {
		if mode, by := modes.At(asked.port); mode == registry.Strict {
			return fmt.Sprintf("the PeerAuthentication %s/%s lets only mutual TLS in (STRICT), and the kubelet's %s of port %d have none: %s by exec, or say PERMISSIVE for that port (portLevelMtls)",
				by.Namespace, by.Name, asked.what, asked.port, asked.instead)
		}
	}
	return ""
}

// asked is a port of a pod that the kubelet connects to, and for what.
type asked struct {
	port          uint32
	what, instead string
}

// kubeletAsks goes through what the kubelet connects to of a pod: probes and hooks of its containers, those of native sidecars too.
func kubeletAsks(pod *corev1.Pod) iter.Seq[asked] {
	return func(yield func(asked) bool) {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) { // other init containers have neither
			for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
				if port := probedPort(&c, p); port != 0 && !yield(asked{port, "probes", "probe"}) {
					return
				}
			}
			for _, h := range hooks(c.Lifecycle) {
				if port := numbered(&c, h.Port); port != 0 && !yield(asked{port, "lifecycle hooks (postStart, preStop)", "write them"}) {
					return
				}
			}
		}
	}
}

// hooks are those that the kubelet performs over the network.
func hooks(l *corev1.Lifecycle) (out []*corev1.HTTPGetAction) {
	if l == nil {
		return nil
	}
	for _, h := range []*corev1.LifecycleHandler{l.PostStart, l.PreStop} {
		if h != nil && h.HTTPGet != nil {
			out = append(out, h.HTTPGet)
		}
	}
	return out
}

// probedPort is the port that a probe connects to; 0 where it connects to none.
func probedPort(c *corev1.Container, p *corev1.Probe) uint32 {
	switch {
	case p == nil:
		return 0
	case p.HTTPGet != nil:
		return numbered(c, p.HTTPGet.Port)
	case p.TCPSocket != nil:
		return numbered(c, p.TCPSocket.Port)
	case p.GRPC != nil:
		return uint32(p.GRPC.Port)
	}
	return 0
}

// numbered is the number of a port that may be given by its name; 0 where no port has it.
func numbered(c *corev1.Container, port intstr.IntOrString) uint32 {
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
