package inject

import (
	"maps"
	"slices"
	"strconv"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/sidecar/status/appprobe"
)

// proxyEnv tells the agent what only the cluster knows: the variables are those of "sallyport-agent proxy". Labels
// come from the downward API's file, as they may change while the pod waits for its node.
func (r *reader) proxyEnv(pod *corev1.Pod, o options, work workload, probes string) []corev1.EnvVar {
	env := append(PodEnv(), []corev1.EnvVar{
		{Name: "DISCOVERY_ADDRESS", Value: o.DiscoveryAddress},
		{Name: "TRUST_DOMAIN", Value: o.TrustDomain},
		{Name: "TERMINATION_DRAIN_DURATION", Value: o.drain.String()},
		{Name: "MINIMUM_DRAIN_DURATION", Value: o.least.String()},
		{Name: "ISTIO_META_CLUSTER_ID", Value: o.ClusterID},
		{Name: "ISTIO_META_INTERCEPTION_MODE", Value: o.Redirect.Mode},
		{Name: "ISTIO_META_APP_CONTAINERS", Value: appContainers(pod)},
	}...)
	if o.Concurrency != nil {
		env = append(env, corev1.EnvVar{Name: "CONCURRENCY", Value: strconv.Itoa(int(*o.Concurrency))})
	}
	for _, optional := range []corev1.EnvVar{
		{Name: "ISTIO_META_WORKLOAD_NAME", Value: work.name},
		{Name: "ISTIO_META_OWNER", Value: work.owner},
		{Name: "ISTIO_META_MESH_ID", Value: o.MeshID},
		{Name: "ISTIO_META_NETWORK", Value: o.Network},
		{Name: "PROXY_CONFIG", Value: o.proxyText},
		{Name: appprobe.Variable, Value: probes},
	} {
		if optional.Value != "" {
			env = append(env, optional)
		}
	}
	ours := map[string]bool{}
	for _, e := range env {
		ours[e.Name] = true
	}
	for _, e := range metadataEnv(o) {
		if ours[e.Name] { // who the pod is, is not the pod's to say
			r.warn("annotation %q: proxyMetadata %s is set by the injector and has no effect", annotation.ProxyConfig.Name, e.Name)
			continue
		}
		env = append(env, e)
	}
	return env
}

// PodEnv tells the agent which pod it is in.
func PodEnv() []corev1.EnvVar {
	return []corev1.EnvVar{
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("INSTANCE_IP", "status.podIP"),
		field("INSTANCE_IPS", "status.podIPs"),
		field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
		field("HOST_IP", "status.hostIP"),
		field("ISTIO_META_NODE_NAME", "spec.nodeName"),
	}
}

// initEnv is what of the proxyMetadata the init step knows.
func initEnv(o options) []corev1.EnvVar {
	if value, ok := o.proxyConfig.GetProxyMetadata()[dnsCapture]; ok {
		return []corev1.EnvVar{{Name: dnsCapture, Value: value}}
	}
	return nil
}

// metadataEnv is the proxyMetadata of the pod's ProxyConfig, by name.
func metadataEnv(o options) []corev1.EnvVar {
	var env []corev1.EnvVar
	metadata := o.proxyConfig.GetProxyMetadata()
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		env = append(env, corev1.EnvVar{Name: name, Value: metadata[name]})
	}
	return env
}

func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}
