package inject

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/sidecar/status/appprobe"
)

// rewriteProbes points the application's probes and HTTP hooks to the agent, and gives the originals for
// appprobe.Variable; "" when there are none. Commands (exec) run in the container and stay. Everybody reaches the agent, and a hook changes something: so it is at a path that only who
// may read the pod knows.
func (r *reader) rewriteProbes(pod *corev1.Pod, o options) string {
	if !o.RewriteAppHTTPProbe {
		return ""
	}
	p := probeRewriter{reader: r, originals: appprobe.Probes{}, hookSeconds: 30, secret: o.Secret}
	if p.secret == nil {
		p.secret = rand.Text
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil && *grace > 0 && *grace < 3600 {
		p.hookSeconds = int32(*grace)
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name != ProxyName {
			p.container(c)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name != ProxyName && keepsRunning(*c) {
			p.early = !o.native
			p.container(c)
		}
	}
	if len(p.originals) == 0 {
		return ""
	}
	text, err := json.Marshal(p.originals) // by path, so the order is total
	if err != nil {
		r.warn("probes stay as they are: %v", err)
		return ""
	}
	return string(text)
}

type probeRewriter struct {
	*reader
	originals   appprobe.Probes
	hookSeconds int32 // for agents of before: this one leaves it to the kubelet
	secret      func() string
	early       bool // the container starts before the proxy
}

func (p *probeRewriter) container(c *corev1.Container) {
	for _, probe := range []struct {
		name string
		of   *corev1.Probe
	}{{"livez", c.LivenessProbe}, {"readyz", c.ReadinessProbe}, {"startupz", c.StartupProbe}} {
		if probe.of == nil || p.early && probe.name == "startupz" {
			continue
		}
		h := &probe.of.ProbeHandler
		original, ok := p.original(c, probe.name, h.HTTPGet, h.TCPSocket, h.GRPC)
		if !ok {
			continue
		}
		original.TimeoutSeconds = probe.of.TimeoutSeconds
		path := appprobe.HealthPrefix + c.Name + "/" + probe.name
		p.originals[path] = original
		*h = corev1.ProbeHandler{HTTPGet: toAgent(path)}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, hook := range []struct {
		name string
		of   *corev1.LifecycleHandler
	}{{"poststartz", c.Lifecycle.PostStart}, {"prestopz", c.Lifecycle.PreStop}} {
		if hook.of == nil || p.early && hook.name == "poststartz" {
			continue
		}
		original, ok := p.original(c, hook.name, hook.of.HTTPGet, nil, nil)
		if !ok {
			continue
		}
		original.TimeoutSeconds = p.hookSeconds
		path := appprobe.LifecyclePrefix + c.Name + "/" + hook.name + "/" + p.secret()
		p.originals[path] = original
		*hook.of = corev1.LifecycleHandler{HTTPGet: toAgent(path)}
	}
}

func toAgent(path string) *corev1.HTTPGetAction {
	return &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(StatusPort), Scheme: corev1.URISchemeHTTP}
}

// original translates a probe into the agent's form. One that asks another host than the pod, or a port that the
// container does not name, is not the agent's.
func (p *probeRewriter) original(c *corev1.Container, what string, get *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction, health *corev1.GRPCAction) (appprobe.Probe, bool) {
	var out appprobe.Probe
	switch {
	case get != nil:
		port, ok := p.port(c, what, get.Host, get.Port)
		rewritten := strings.HasPrefix(get.Path, appprobe.HealthPrefix) || strings.HasPrefix(get.Path, appprobe.LifecyclePrefix)
		if !ok || rewritten && port == StatusPort {
			return out, false
		}
		out.HTTPGet = &appprobe.HTTPGet{Path: get.Path, Port: port, Scheme: string(get.Scheme)}
		for _, header := range get.HTTPHeaders {
			out.HTTPGet.Headers = append(out.HTTPGet.Headers, appprobe.Header{Name: header.Name, Value: header.Value})
		}
	case tcp != nil:
		port, ok := p.port(c, what, tcp.Host, tcp.Port)
		if !ok {
			return out, false
		}
		out.TCPSocket = &appprobe.TCPSocket{Port: port}
	case health != nil:
		port, ok := p.port(c, what, "", intstr.FromInt32(health.Port))
		if !ok {
			return out, false
		}
		out.GRPC = &appprobe.GRPC{Port: port}
		if health.Service != nil {
			out.GRPC.Service = *health.Service
		}
	default:
		return out, false
	}
	return out, true
}

func (p *probeRewriter) port(c *corev1.Container, what, host string, port intstr.IntOrString) (uint16, bool) {
	if host != "" {
		p.warn("container %q: its probe %s asks host %q and stays as it is: the proxy has no part in it", c.Name, what, host)
		return 0, false
	}
	number := port.IntValue()
	if port.Type == intstr.String {
		for _, named := range c.Ports {
			if named.Name == port.StrVal {
				number = int(named.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		p.warn("container %q: its probe %s asks port %q, which is none of the container's, and stays as it is", c.Name, what, port.String())
		return 0, false
	}
	return uint16(number), true
}
