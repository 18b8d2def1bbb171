package inject

import (
	"cmp"
	"encoding/json"
	"strconv"

	"istio.io/api/annotation"
	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"
)

// Annotations of kubectl and Prometheus.
const (
	defaultContainer = "kubectl.kubernetes.io/default-container"
	defaultLogs      = "kubectl.kubernetes.io/default-logs-container"
	scrape           = "prometheus.io/scrape"
	scrapePort       = "prometheus.io/port"
	scrapePath       = "prometheus.io/path"
)

// maxLabel is the length of a label's value at most.
const maxLabel = 63

// describe sets labels and annotations, and no one that is there already.
func describe(out, original *corev1.Pod, o options, work workload) {
	takes := "istio" // clients are told that they may speak mutual TLS to it
	if o.NoMutualTLS || o.uncaught {
		takes = ""
	}
	labels := map[string]string{
		label.SecurityTlsMode.Name:          takes,
		label.ServiceCanonicalName.Name:     cmp.Or(original.Labels["app.kubernetes.io/name"], original.Labels["app"], work.name),
		label.ServiceCanonicalRevision.Name: cmp.Or(original.Labels["app.kubernetes.io/version"], original.Labels["version"], "latest"),
		label.IoIstioRev.Name:               o.Revision,
		label.TopologyNetwork.Name:          o.Network,
	}
	annotations := map[string]string{annotation.SidecarStatus.Name: status(o)}
	if first := firstContainer(original); first != "" {
		annotations[defaultContainer], annotations[defaultLogs] = first, first
	}
	if o.PrometheusScrape && original.Annotations[scrape] == "" && original.Annotations[scrapePort] == "" && original.Annotations[scrapePath] == "" {
		annotations[scrape], annotations[scrapePort], annotations[scrapePath] = "true", strconv.Itoa(StatusPort), "/stats/prometheus"
	}
	delete(out.Annotations, annotation.SidecarStatus.Name) // what another injector left counts for nothing
	out.Labels, out.Annotations = complete(out.Labels, labels), complete(out.Annotations, annotations)
}

func complete(present, more map[string]string) map[string]string {
	if present == nil {
		present = map[string]string{}
	}
	for key, value := range more {
		if _, ok := present[key]; !ok && value != "" {
			present[key] = value
		}
	}
	if name := label.ServiceCanonicalName.Name; len(present[name]) > maxLabel {
		present[name] = trimLabel(present[name])
	}
	return present
}

// trimLabel cuts a workload's name to a label's length.
func trimLabel(value string) string {
	value = value[:maxLabel]
	for len(value) > 0 && (value[len(value)-1] == '-' || value[len(value)-1] == '.') {
		value = value[:len(value)-1]
	}
	return value
}

func firstContainer(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name != ProxyName {
			return c.Name
		}
	}
	return ""
}

// status says what was added, in Istio's form.
func status(o options) string {
	s := struct {
		InitContainers   []string `json:"initContainers"`
		Containers       []string `json:"containers"`
		Volumes          []string `json:"volumes"`
		ImagePullSecrets []string `json:"imagePullSecrets"`
		Revision         string   `json:"revision"`
	}{ImagePullSecrets: o.ImagePullSecrets, Revision: o.Revision}
	if o.intercept {
		s.InitContainers = append(s.InitContainers, InitName)
	}
	if o.native {
		s.InitContainers = append(s.InitContainers, ProxyName)
	} else {
		s.Containers = append(s.Containers, ProxyName)
	}
	for _, v := range Volumes(o.RunSize, o.StateSize) {
		s.Volumes = append(s.Volumes, v.Name)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "{}"
	}
	return string(text)
}
