package kube

import (
	corev1 "k8s.io/api/core/v1"
)

// isNative says whether an init container is a native sidecar, which goes on beside the app.
func isNative(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// trimContainer keeps the names of ports, and the ports that the kubelet connects to where nobody rewrote its probes.
func trimContainer(c *corev1.Container, injected bool) (kept corev1.Container) {
	for _, port := range c.Ports {
		if port.Name != "" {
			kept.Ports = append(kept.Ports, corev1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort})
		}
	}
	if !injected {
		kept.ReadinessProbe, kept.LivenessProbe, kept.StartupProbe = trimProbe(c.ReadinessProbe), trimProbe(c.LivenessProbe), trimProbe(c.StartupProbe)
		kept.Lifecycle = trimLifecycle(c.Lifecycle)
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
