package check

import (
	"fmt"
	"slices"
	"strings"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// proxyID is the user and group whose traffic the pod's rules do not catch.
const proxyID = 1337

// powers are the capabilities by which a container leaves the proxy out.
var powers = map[string]string{
	"ALL":       "it can change the pod's traffic rules and send raw packets",
	"NET_ADMIN": "it can change the pod's traffic rules",
	"NET_RAW":   "it can send packets that the pod's traffic rules do not see",
	"SYS_ADMIN": "it can change the pod's traffic rules",
	"BPF":       "it can load programs that change the pod's traffic",
}

// dangers judges what lets a pod with a proxy leave it out.
func (s *survey) dangers(p subject) {
	pod := p.pod
	if pod.Spec.HostNetwork {
		s.optedOut(p, "")
		return
	}
	severity := s.bypass(pod)
	of := pod.Spec.SecurityContext
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}, {"ephemeralContainers", ephemeral(pod)}} {
		for _, c := range list.containers {
			if c.Name != inject.ProxyName && c.Name != inject.InitName {
				s.container(p, severity, fmt.Sprintf("spec.%s[%q]", list.name, c.Name), c, of)
			}
		}
	}
	s.holes(p, severity)
}

// ephemeral are the ephemeral containers that have not ended: they cannot be removed, nor started again.
func ephemeral(pod *corev1.Pod) []corev1.Container {
	var out []corev1.Container
	for _, c := range pod.Spec.EphemeralContainers {
		if slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name && s.State.Terminated != nil }) {
			continue
		}
		out = append(out, corev1.Container(c.EphemeralContainerCommon))
	}
	return out
}

func (s *survey) container(p subject, severity admission.Severity, at string, c corev1.Container, of *corev1.PodSecurityContext) {
	own := c.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	for _, id := range []struct {
		field     string
		own, pods *int64
	}{{"runAsUser", own.RunAsUser, of.RunAsUser}, {"runAsGroup", own.RunAsGroup, of.RunAsGroup}} {
		field, value := p.path(at+".securityContext."+id.field), id.own
		if value == nil {
			field, value = p.path("spec.securityContext."+id.field), id.pods
		}
		if value != nil && *value == proxyID {
			s.say(p, severity, field, fmt.Sprint(proxyID), fmt.Sprintf("container %q runs as the proxy: its traffic is not caught", c.Name), "choose another number")
		}
	}
	if own.Privileged != nil && *own.Privileged {
		s.say(p, severity, p.path(at+".securityContext.privileged"), "true", "it can change the pod's traffic rules, and the node", "take it away")
		return
	}
	if own.Capabilities == nil {
		return
	}
	for _, added := range own.Capabilities.Add {
		name := strings.TrimPrefix(strings.ToUpper(string(added)), "CAP_")
		if means, ok := powers[name]; ok {
			s.say(p, severity, p.path(at+".securityContext.capabilities.add"), string(added), means, "take it away")
		}
	}
}

// openings are the annotations by which a pod says what is not caught, and the values that open nothing.
var openings = []struct {
	annotation, means string
	harmless          []string
}{
	{annotation.SidecarTrafficExcludeOutboundIPRanges.Name, "connections to these addresses are not caught: nothing decides or records them", []string{""}},
	{annotation.SidecarTrafficExcludeOutboundPorts.Name, "connections to these ports are not caught: nothing decides or records them", []string{""}},
	{annotation.SidecarTrafficIncludeOutboundIPRanges.Name, "connections to other addresses are not caught: nothing decides or records them", []string{"*"}},
	{annotation.SidecarTrafficExcludeInterfaces.Name, "traffic of these interfaces is not caught: nothing decides or records it", []string{""}},
	{annotation.SidecarInterceptionMode.Name, "nothing is caught unless something else does", []string{"REDIRECT"}},
}

// holes judges what a pod's annotations leave uncaught.
func (s *survey) holes(p subject, severity admission.Severity) {
	for _, o := range openings {
		if value, ok := p.pod.Annotations[o.annotation]; ok && !slices.Contains(o.harmless, strings.TrimSpace(value)) {
			s.say(p, severity, p.annotation(o.annotation), value, o.means, "remove the annotation, and register what the pod needs with a ServiceEntry")
		}
	}
}

// holesForAll judges what the injector's settings leave uncaught in all pods.
func (s *survey) holesForAll() {
	r := s.Injection.Redirect
	for _, o := range []struct{ field, value, harmless string }{
		{"excludeOutboundIPRanges", r.ExcludeOutboundIPRanges, ""},
		{"excludeOutboundPorts", r.ExcludeOutboundPorts, ""},
		{"includeOutboundIPRanges", r.IncludeOutboundIPRanges, "*"},
		{"excludeInterfaces", r.ExcludeInterfaces, ""},
	} {
		if o.value != o.harmless {
			s.add(admission.Warning, key("ConfigMap", s.System, "sallyport-injector"), "data.config: redirect."+o.field, o.value,
				"what the injector's settings leave uncaught, no pod's proxy decides or records", "empty it, and register what pods need with ServiceEntries")
		}
	}
}
