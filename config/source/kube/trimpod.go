package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/mesh"
)

// isNative says whether an init container is a native sidecar, which goes on beside the app.
func isNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// trimContainer keeps the names of ports; where nobody rewrote its probes, as he does who adds a sidecar, the ports that the kubelet connects to, and what trimEnv keeps.
func trimContainer(c *corev1.Container, injected bool) (kept corev1.Container) {
	for _, port := range c.Ports {
		if port.Name != "" {
			kept.Ports = append(kept.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort})
		}
	}
	if !injected {
		kept.ReadinessProbe, kept.LivenessProbe, kept.StartupProbe = trimProbe(c.ReadinessProbe), trimProbe(c.LivenessProbe), trimProbe(c.StartupProbe)
		kept.Lifecycle = trimLifecycle(c.Lifecycle)
		kept.Env = trimEnv(c.Env)
	}
	return kept
}

// trimEnv keeps what a gateway's agent is told of the proxies in front of it.
func trimEnv(list []corev1.EnvVar) (kept []corev1.EnvVar) {
	for _, e := range list {
		if e.Name != mesh.ProxyConfigVariable {
			continue
		}
		said, _ := mesh.OnlyTopology(e.Value) // of what is wrong nothing counts
		if kept = nil; said != "" {
			kept = []corev1.EnvVar{{Name: e.Name, Value: said}} // the last counts
		}
	}
	return kept
}

// connected says whether the kubelet connects to anything of a container.
func connected(kept *corev1.Container) bool {
	return kept.ReadinessProbe != nil || kept.LivenessProbe != nil || kept.StartupProbe != nil || kept.Lifecycle != nil
}

// trimProbe keeps the host and port that a probe connects to; nil of one that connects to none.
func trimProbe(p *corev1.Probe) *corev1.Probe {
	kept := &corev1.Probe{}
	switch {
	case p == nil:
		return nil
	case p.HTTPGet != nil:
		kept.HTTPGet = trimGet(p.HTTPGet)
	case p.TCPSocket != nil:
		kept.TCPSocket = &corev1.TCPSocketAction{Port: p.TCPSocket.Port, Host: p.TCPSocket.Host}
	case p.GRPC != nil:
		kept.GRPC = &corev1.GRPCAction{Port: p.GRPC.Port}
	default:
		return nil
	}
	return kept
}

// trimLifecycle keeps what a postStart hook connects to, by HTTP as it may only; nil where there is none.
func trimLifecycle(l *corev1.Lifecycle) *corev1.Lifecycle {
	if l == nil || l.PostStart == nil || l.PostStart.HTTPGet == nil {
		return nil
	}
	return &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: trimGet(l.PostStart.HTTPGet)}}
}

func trimGet(a *corev1.HTTPGetAction) *corev1.HTTPGetAction {
	return &corev1.HTTPGetAction{Port: a.Port, Host: a.Host}
}
