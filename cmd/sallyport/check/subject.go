package check

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/sidecar/inject"
)

// Template is a pod, or the template of pods, in a file.
type Template struct {
	Key    config.Key // of the object that has it
	Origin string     // "web.yaml:3"
	Pod    *corev1.Pod
}

// subject is a pod to judge, and the object that its author writes.
type subject struct {
	pod    *corev1.Pod
	key    config.Key
	origin string
}

// where templates are in the kinds that have them.
var templatePath = map[config.Kind]string{config.KindPod: "", "CronJob": "spec.jobTemplate.spec.template."}

// path is where a field of the pod is in the object.
func (p subject) path(field string) string {
	prefix, ok := templatePath[p.key.Kind]
	if !ok {
		prefix = "spec.template."
	}
	return prefix + field
}

func (p subject) annotation(name string) string {
	return p.path(`metadata.annotations["` + name + `"]`)
}

// say notes a finding about a pod.
func (s *survey) say(p subject, severity admission.Severity, field, value, message, fix string) {
	f := admission.Finding{Severity: severity, Key: p.key, Origin: p.origin, Field: field, Value: value, Message: message, Fix: fix}
	s.seen[f] = append(s.seen[f], p.pod.Name)
}

// running gives those of the pods that have not ended, in order of their names.
func running(pods []corev1.Pod) []subject {
	var out []subject
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
			continue
		}
		out = append(out, subject{pod: p, key: OwnerOf(p)})
	}
	slices.SortFunc(out, func(a, b subject) int { return strings.Compare(a.pod.Name, b.pod.Name) })
	return out
}

// scheduled is how a CronJob names its Jobs: by the minute.
var scheduled = regexp.MustCompile(`-\d{8,10}$`)

// OwnerOf is the object that the pod's author wrote, as far as the pod tells.
func OwnerOf(p *corev1.Pod) config.Key {
	by := metav1.GetControllerOfNoCopy(p)
	if by == nil || by.Kind == "Node" {
		return key("Pod", p.Namespace, p.Name)
	}
	if name, ok := strings.CutSuffix(by.Name, "-"+p.Labels["pod-template-hash"]); ok && by.Kind == "ReplicaSet" {
		return key("Deployment", p.Namespace, name)
	}
	if by.Kind == "Job" && scheduled.MatchString(by.Name) {
		return key("CronJob", p.Namespace, scheduled.ReplaceAllString(by.Name, ""))
	}
	return key(by.Kind, p.Namespace, by.Name)
}

// proxyOf is the pod's proxy container, or nil.
func proxyOf(p *corev1.Pod) *corev1.Container {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == inject.ProxyName {
				return &list[i]
			}
		}
	}
	return nil
}

// isStatic says whether the kubelet runs the pod from its own file: no injector sees it in time.
func isStatic(p *corev1.Pod) bool { return p.Annotations[corev1.MirrorPodAnnotationKey] != "" }
