package inject

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// dangers warns of what lets a pod go around its proxy, or break it, although the pod may be meant so. What must not
// be left to the pod's author is the gateway's and the network policies' to close.
func (r *reader) dangers(pod *corev1.Pod, o options) {
	of := pod.Spec.SecurityContext
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == ProxyName || c.Name == InitName {
			r.customDangers(c)
			continue
		}
		r.containerDangers(c, of)
	}
	if pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace {
		r.warn("shareProcessNamespace: containers that run as root, or as user %d, can read the proxy's keys", proxyID)
	}
	if len(pod.Spec.InitContainers) > 0 && !o.native && o.intercept {
		r.warn("the pod's own init containers run before its traffic is caught and go around the proxy; as a native sidecar it would be there first: see nativeSidecar in the injector's settings")
	}
	if by := metav1.GetControllerOfNoCopy(pod); by != nil && (by.Kind == "Job" || by.Kind == "CronJob") && !o.native {
		r.warn("a Job is done when all containers of its pod have ended, and the proxy does not end by itself; as a native sidecar it does: see nativeSidecar in the injector's settings")
	}
	grace := 30 * time.Second
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if !o.native && o.drain >= grace && grace > 0 {
		r.warn("the proxy may drain for %s, but the pod is killed after %s (terminationGracePeriodSeconds): connections and audit records may be cut", o.drain, grace)
	}
}

func (r *reader) containerDangers(c corev1.Container, of *corev1.PodSecurityContext) {
	user, group := of.RunAsUser, of.RunAsGroup
	own := c.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	if own.RunAsUser != nil {
		user = own.RunAsUser
	}
	if own.RunAsGroup != nil {
		group = own.RunAsGroup
	}
	if user != nil && *user == proxyID {
		r.warn("container %q runs as user %d, which is the proxy's: its traffic goes around the proxy; run it as another user", c.Name, proxyID)
	}
	if group != nil && *group == proxyID {
		r.warn("container %q runs as group %d, which is the proxy's: its traffic goes around the proxy; run it as another group", c.Name, proxyID)
	}
	if own.Privileged != nil && *own.Privileged {
		r.warn("container %q is privileged: it can change the pod's traffic rules and go around the proxy", c.Name)
		return
	}
	if own.Capabilities == nil {
		return
	}
	for _, capability := range own.Capabilities.Add {
		if slices.Contains([]corev1.Capability{"ALL", "NET_ADMIN", "CAP_NET_ADMIN", "SYS_ADMIN", "CAP_SYS_ADMIN"}, capability) {
			r.warn("container %q has the capability %s: it can change the pod's traffic rules and go around the proxy", c.Name, capability)
		}
	}
}

// customDangers warns when the pod's author changes how the proxy itself is confined.
func (r *reader) customDangers(c corev1.Container) {
	if c.SecurityContext != nil {
		r.warn("container %q: the pod changes the securityContext of the injector's container", c.Name)
	}
	if c.Image != "" && c.Image != autoImage {
		r.warn("container %q: the pod brings its own image %q in place of the injector's", c.Name, c.Image)
	}
}
