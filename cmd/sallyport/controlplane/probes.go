package controlplane

import (
	"fmt"
	"iter"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// strictProbe says which probe or postStart hook of a pod without a sidecar could not come where the node's agent cannot let the kubelet's connections in: the kubelet
// has no certificate, and other agents do not tell its connections from those of others that the node hands on. A sidecar's pod has them rewritten; this one has not.
// "" where all can.
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

// probedPorts are the ports of a pod that the kubelet connects to, in order.
func probedPorts(pod *corev1.Pod) (out []uint16) {
	for asked := range kubeletAsks(pod) {
		if asked.port <= math.MaxUint16 {
			out = append(out, uint16(asked.port))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// asked is a port of a pod that the kubelet connects to, and for what.
type asked struct {
	port          uint32
	what, instead string
}

// kubeletAsks goes through what the kubelet connects to of a pod for it to run: probes and postStart hooks of its containers, those of native
// sidecars too. A preStop hook that fails is no reason not to serve the pod: it ends anyway.
func kubeletAsks(pod *corev1.Pod) iter.Seq[asked] {
	own := podIPs(pod)
	return func(yield func(asked) bool) {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) { // other init containers have neither
			for _, p := range []*corev1.Probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
				if port := probedPort(&c, p, own); port != 0 && !yield(asked{port, "probes", "probe"}) {
					return
				}
			}
			if port := hookedPort(&c, own); port != 0 && !yield(asked{port, "postStart hooks", "write them"}) {
				return
			}
		}
	}
}

// hookedPort is the port that a postStart hook asks by HTTP; 0 where it asks none of the pod's.
func hookedPort(c *corev1.Container, own []string) uint32 {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil || c.Lifecycle.PostStart.HTTPGet == nil {
		return 0
	}
	get := c.Lifecycle.PostStart.HTTPGet
	return portOf(c, get.Host, get.Port, own)
}

// probedPort is the port that a probe connects to; 0 where it connects to none of the pod's.
func probedPort(c *corev1.Container, p *corev1.Probe, own []string) uint32 {
	switch {
	case p == nil:
		return 0
	case p.HTTPGet != nil:
		return portOf(c, p.HTTPGet.Host, p.HTTPGet.Port, own)
	case p.TCPSocket != nil:
		return portOf(c, p.TCPSocket.Host, p.TCPSocket.Port, own)
	case p.GRPC != nil:
		return uint32(p.GRPC.Port)
	}
	return 0
}

// portOf is the number of a port that is asked at a host; 0 where that is none of the pod's addresses. Without a host it is the pod.
func portOf(c *corev1.Container, host string, port intstr.IntOrString, own []string) uint32 {
	if host != "" && !slices.Contains(own, host) {
		return 0
	}
	return numbered(c, port)
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
