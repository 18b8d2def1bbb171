package inject

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Names and places of what is mounted. Those of Istio are Istio's.
const (
	rootVolume    = "istiod-ca-cert"
	tokenVolume   = "istio-token"
	podInfoVolume = "istio-podinfo"
	runVolume     = "sallyport-run"
	stateVolume   = "sallyport-state"

	rootConfigMap = "istio-ca-root-cert" // the control plane keeps one in each namespace
	tokenAudience = "istio-ca"
	tokenSeconds  = 43200

	runDir = "/var/run/sallyport" // the agent's default
)

// Volumes are what an agent mounts: at most so much disk for sockets and records that wait, and so much memory for keys and
// the last good configuration.
func Volumes(run, state resource.Quantity) []corev1.Volume {
	mode := ptr(int32(0o644))
	return []corev1.Volume{
		{Name: runVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr(run.DeepCopy())}}},
		{Name: stateVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: ptr(state.DeepCopy()),
		}}},
		{Name: podInfoVolume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: mode, Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}},
			{Path: "annotations", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations"}},
		}}}},
		{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: tokenAudience, ExpirationSeconds: ptr(int64(tokenSeconds)), Path: "istio-token"}},
		}}}},
		{Name: rootVolume, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: rootConfigMap}, DefaultMode: mode,
		}}},
	}
}

// VolumeMounts are where an agent finds them.
func VolumeMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: runVolume, MountPath: runDir},
		{Name: stateVolume, MountPath: runDir + "/state"},
		{Name: podInfoVolume, MountPath: "/etc/istio/pod", ReadOnly: true},
		{Name: tokenVolume, MountPath: "/var/run/secrets/tokens", ReadOnly: true},
		{Name: rootVolume, MountPath: "/var/run/secrets/istio", ReadOnly: true},
	}
}

// clashes finds names of the pod's own that the proxy needs.
func (r *reader) clashes(pod *corev1.Pod) {
	const fix = "give it another name"
	ours := map[string]bool{rootVolume: true, tokenVolume: true, podInfoVolume: true, runVolume: true, stateVolume: true}
	for i, v := range pod.Spec.Volumes {
		if ours[v.Name] {
			r.mistakes = append(r.mistakes, Mistake{Field: fmt.Sprintf("spec.volumes[%d].name", i), Value: v.Name, Problem: "the proxy needs this name", Fix: fix})
		}
	}
	for _, c := range pod.Spec.Containers {
		r.portClashes(c)
	}
	for _, c := range pod.Spec.InitContainers {
		if keepsRunning(c) {
			r.portClashes(c)
		}
	}
}

// Ports of 127.0.0.1 that the agent and Envoy listen on.
const (
	adminPort    = 15000
	dnsPort      = 15053
	resolverPort = 15054
)

// portClashes finds ports of a container that the proxy needs.
func (r *reader) portClashes(c corev1.Container) {
	if c.Name == ProxyName || c.Name == InitName {
		return
	}
	for i, p := range c.Ports {
		field := fmt.Sprintf("container %q: ports[%d].containerPort", c.Name, i)
		udp := p.Protocol == corev1.ProtocolUDP
		switch p.ContainerPort {
		case outboundPort, inboundPort, StatusPort, ReadyPort, StatsPort:
			if udp {
				continue
			}
			r.mistakes = append(r.mistakes, Mistake{
				Field: field, Value: fmt.Sprint(p.ContainerPort),
				Problem: "the proxy listens on this port", Fix: "let the application listen on another one",
			})
		case adminPort, dnsPort, resolverPort:
			if udp && p.ContainerPort == adminPort {
				continue
			}
			r.warn("%s: %q: the proxy listens on this port of 127.0.0.1: where the container listens on it at all addresses, one of the two does not start; let it listen on another one", field, fmt.Sprint(p.ContainerPort))
		}
	}
}
