package inject

import (
	"slices"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"
)

// Without native sidecars the proxy starts after all init containers, and beside the application's. What the kubelet waits for before it goes on
// to the proxy must not wait for the proxy: startup probes and postStart hooks of native sidecars of the pod's own stay as they are, and an
// application's postStart hook has the proxy start first.

// startsFirst has the proxy start before the application where the application has a postStart hook that goes to the pod: the kubelet calls it as soon as the container
// runs, and starts no other one until it is answered.
func (r *reader) startsFirst(pod *corev1.Pod, o *options) {
	if o.native || !o.intercept && !o.RewriteAppHTTPProbe || o.HoldApplicationUntilProxyStarts {
		return
	}
	for _, c := range pod.Spec.Containers {
		if c.Name == ProxyName || c.Lifecycle == nil || c.Lifecycle.PostStart == nil || !asksPod(c.Lifecycle.PostStart.HTTPGet) {
			continue
		}
		o.HoldApplicationUntilProxyStarts = true
		if o.proxyConfig.GetHoldApplicationUntilProxyStarts() != nil {
			r.warn("annotation %q: holdApplicationUntilProxyStarts is false, and the proxy starts first all the same: the postStart hook of container %q goes by it; let the hook run a command (exec)", annotation.ProxyConfig.Name, c.Name)
		}
		return
	}
}

// earlyDangers warns of what the kubelet asks native sidecars of the pod's own while there is no proxy, and when they start again.
func (r *reader) earlyDangers(pod *corev1.Pod, o options) {
	if o.native {
		return
	}
	const instead = `let it run a command (exec), or let the proxy be a native sidecar (annotation "sidecar.istio.io/nativeSidecar": "true")`
	for i, c := range pod.Spec.InitContainers {
		if c.Name == ProxyName || !keepsRunning(c) {
			continue
		}
		if h := c.StartupProbe; o.intercept && h != nil && (asksPod(h.HTTPGet) || h.GRPC != nil) {
			r.warn("container %q: its startupProbe asks the container itself, as the proxy starts after all init containers; when the container starts again it comes by the proxy, and fails where the pod takes mutual TLS alone (STRICT); %s", c.Name, instead)
		}
		if l := c.Lifecycle; o.intercept && l != nil && l.PostStart != nil && asksPod(l.PostStart.HTTPGet) {
			r.warn("container %q: its postStart hook asks the container itself, as the proxy starts after all init containers; when the container starts again it comes by the proxy, and fails where the pod takes mutual TLS alone (STRICT); %s", c.Name, instead)
		}
		waits := slices.ContainsFunc(pod.Spec.InitContainers[i+1:], func(next corev1.Container) bool { return next.Name != InitName && !keepsRunning(next) })
		if h := c.LivenessProbe; o.RewriteAppHTTPProbe && waits && h != nil && (asksPod(h.HTTPGet) || h.GRPC != nil || h.TCPSocket != nil && h.TCPSocket.Host == "") {
			r.warn("container %q: its livenessProbe is answered by the proxy, which starts after all init containers: while those after it run it fails, and the kubelet starts the container again; %s", c.Name, instead)
		}
	}
}

// asksPod says whether a request of the kubelet goes to the pod itself.
func asksPod(get *corev1.HTTPGetAction) bool { return get != nil && get.Host == "" }

// keepsRunning says whether an init container is a native sidecar.
func keepsRunning(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
