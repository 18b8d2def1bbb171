package inject

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The containers' names, Istio's.
const (
	InitName  = "istio-init"
	ProxyName = "istio-proxy"
)

// initContainer writes the iptables rules, which takes root and two capabilities, and ends.
func initContainer(o options) corev1.Container {
	return corev1.Container{
		Name: InitName, Image: o.Image, ImagePullPolicy: o.ImagePullPolicy,
		Args: o.initArgs,
		Env:  initEnv(o),
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: ptr(int64(0)), RunAsGroup: ptr(int64(0)), RunAsNonRoot: ptr(false),
			Privileged: ptr(false), AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Resources: *o.Resources.DeepCopy(),
	}
}

// proxyContainer runs the agent, which runs Envoy.
func (r *reader) proxyContainer(pod *corev1.Pod, o options, work workload, probes string) corev1.Container {
	c := corev1.Container{
		Name: ProxyName, Image: o.Image, ImagePullPolicy: o.ImagePullPolicy,
		Args:            proxyArgs(o),
		Env:             r.proxyEnv(pod, o, work, probes),
		Ports:           []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: StatsPort, Protocol: corev1.ProtocolTCP}},
		SecurityContext: ProxySecurity(),
		Resources:       *o.Resources.DeepCopy(),
		VolumeMounts:    VolumeMounts(),
		ReadinessProbe:  ReadyProbe(15, 4),
		StartupProbe:    ReadyProbe(1, 600),
	}
	switch {
	case o.native:
		c.RestartPolicy, c.Lifecycle = ptr(corev1.ContainerRestartPolicyAlways), askClientsToGo()
	case o.HoldApplicationUntilProxyStarts:
		c.Lifecycle = waitForProxy()
	}
	return c
}

// waitForProxy has the kubelet start no further container before the proxy is ready.
func waitForProxy() *corev1.Lifecycle {
	return &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"sallyport-agent", "wait"}},
	}}
}

// askClientsToGo has the proxy of a pod that ends ask its clients to close what they keep, from the moment on in which the pod is told to end: a native sidecar is told
// only when the application has ended, and answers requests that come on such connections with 503 until then. What is new is taken, and other connections go on.
func askClientsToGo() *corev1.Lifecycle {
	return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"sallyport-agent", "request", "POST", "drain_listeners?graceful&inboundonly&skip_exit"}},
	}}
}

// ProxySecurity is that of a container that runs the agent and Envoy: no rights.
func ProxySecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser: ptr(int64(proxyID)), RunAsGroup: ptr(int64(proxyID)), RunAsNonRoot: ptr(true),
		Privileged: ptr(false), AllowPrivilegeEscalation: ptr(false), ReadOnlyRootFilesystem: ptr(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func proxyArgs(o options) []string {
	args := []string{"proxy", "sidecar", "--envoy-log-level", o.LogLevel}
	for _, allowed := range o.AllowPrivate {
		args = append(args, "--allow-private", allowed)
	}
	return args
}

// ReadyProbe asks the agent's readiness port, every period seconds.
func ReadyProbe(period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/healthz/ready", Port: intstr.FromInt32(ReadyPort), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 3, SuccessThreshold: 1,
	}
}

// appContainers are the names of the containers that stay the application's.
func appContainers(pod *corev1.Pod) string {
	var names []string
	for _, c := range pod.Spec.Containers {
		if c.Name != ProxyName {
			names = append(names, c.Name)
		}
	}
	return strings.Join(names, ",")
}

func ptr[T any](v T) *T { return &v }
