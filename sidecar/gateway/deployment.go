package gateway

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/sallyport/sallyport/sidecar/inject"
)

// unprivilegedPorts lets a process without rights listen on ports below 1024, in its own pod.
const unprivilegedPorts = "net.ipv4.ip_unprivileged_port_start"

// ambientLabel is Istio's, by which pods join the mesh without sidecars.
const ambientLabel = "istio.io/dataplane-mode"

// afterDrain is how long the last of a pod takes, in seconds: Envoy's end, and the last audit records.
const afterDrain = 15

func (g made) deployment() *appsv1.Deployment {
	none, some := intstr.FromInt32(0), intstr.FromString("25%")
	pod := metav1.ObjectMeta{Labels: g.labels(), Annotations: g.annotations()}
	pod.Labels["sidecar.istio.io/inject"] = "false"
	if g.as == Waypoint {
		pod.Labels[ambientLabel] = "none" // it is a proxy itself, wherever it is
	}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: g.meta(),
		Spec: appsv1.DeploymentSpec{
			Replicas: g.settings.Replicas,
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &some},
			},
			Selector: &metav1.LabelSelector{MatchLabels: g.selector()},
			Template: corev1.PodTemplateSpec{ObjectMeta: pod, Spec: g.pod()},
		},
	}
}

func (g made) pod() corev1.PodSpec {
	s := g.settings
	spec := corev1.PodSpec{
		ServiceAccountName: g.name, AutomountServiceAccountToken: new(false),
		TerminationGracePeriodSeconds: new(int64((s.Drain.Delay.Duration + s.Drain.Max.Duration).Seconds()) + afterDrain),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			Sysctls: []corev1.Sysctl{{Name: unprivilegedPorts, Value: "0"}},
		},
		Containers: []corev1.Container{g.container()},
		Volumes:    inject.Volumes(s.RunSize, s.StateSize),
	}
	for _, secret := range s.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: g.selector()}, MatchLabelKeys: []string{"pod-template-hash"},
		})
	}
	return spec
}

// container runs the agent, which runs Envoy.
func (g made) container() corev1.Container {
	s := g.settings
	c := corev1.Container{
		Name: inject.ProxyName, Image: s.Image, ImagePullPolicy: s.ImagePullPolicy,
		Args: []string{"proxy", string(g.as), "--max-connections=" + strconv.FormatInt(s.MaxConnections, 10), "--envoy-log-level=" + s.LogLevel},
		Env:  g.env(),
		Ports: []corev1.ContainerPort{
			{Name: "status-port", ContainerPort: inject.ReadyPort, Protocol: corev1.ProtocolTCP},
			{Name: "http-agent", ContainerPort: inject.StatusPort, Protocol: corev1.ProtocolTCP},
			{Name: "http-envoy-prom", ContainerPort: inject.StatsPort, Protocol: corev1.ProtocolTCP},
		},
		SecurityContext: inject.ProxySecurity(),
		Resources:       *s.Resources.DeepCopy(),
		VolumeMounts:    inject.VolumeMounts(),
		StartupProbe:    inject.ReadyProbe(1, 120),
		ReadinessProbe:  inject.ReadyProbe(5, 3),
		// The agent restarts Envoy itself, so only a dead agent is a reason to cut everybody's connections.
		LivenessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(inject.ReadyPort)}},
			PeriodSeconds: 20, TimeoutSeconds: 5, FailureThreshold: 6,
		},
	}
	if delay := int64(s.Drain.Delay.Seconds()); delay > 0 {
		// Endpoints lose the pod while it still takes connections; only then are the agent and Envoy told to end.
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: delay}}}
	}
	return c
}

func (g made) env() []corev1.EnvVar {
	s := g.settings
	env := append(inject.PodEnv(), []corev1.EnvVar{
		{Name: "DISCOVERY_ADDRESS", Value: s.DiscoveryAddress},
		{Name: "TRUST_DOMAIN", Value: s.TrustDomain},
		{Name: "ISTIO_META_CLUSTER_ID", Value: s.ClusterID},
		{Name: "ISTIO_META_WORKLOAD_NAME", Value: g.name},
		{Name: "TERMINATION_DRAIN_DURATION", Value: s.Drain.Max.Duration.String()},
		{Name: "MINIMUM_DRAIN_DURATION", Value: s.Drain.Min.Duration.String()},
	}...)
	concurrency := corev1.EnvVar{Name: "CONCURRENCY", Value: strconv.Itoa(int(s.Concurrency))}
	if s.Concurrency == 0 {
		concurrency = corev1.EnvVar{Name: "CONCURRENCY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}}
	}
	env = append(env, concurrency)
	if s.ProxyConfig != "" {
		env = append(env, corev1.EnvVar{Name: "PROXY_CONFIG", Value: s.ProxyConfig})
	}
	return env
}
