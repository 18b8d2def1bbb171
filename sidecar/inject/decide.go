package inject

import (
	"fmt"
	"slices"
	"strings"

	"istio.io/api/annotation"
	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"
)

// namespaceLabel is enabled or disabled.
const namespaceLabel = "istio-injection"

// Namespace is what counts of a pod's namespace.
type Namespace struct {
	Name   string
	Labels map[string]string
}

// refusal says why the pod is not injected; "" when it is. The order of the rules is Istio's: what a pod can never be,
// the namespace's label, the namespace's revision, the pod's own labels, the default.
func refusal(pod *corev1.Pod, ns Namespace, s Settings) (string, *Mistake) {
	if why := never(pod, ns, s); why != "" {
		return why, nil
	}
	switched := ns.Labels[namespaceLabel]
	if switched == "disabled" {
		return fmt.Sprintf("namespace %s has the label %s=disabled", ns.Name, namespaceLabel), nil
	}
	own, wanted, mistake := wish(pod)
	if mistake != nil {
		return "", mistake
	}
	if own && !wanted {
		return fmt.Sprintf("the pod says %s: \"false\"", label.SidecarInject.Name), nil
	}
	namespaceRevision, hasRevision := ns.Labels[label.IoIstioRev.Name]
	podRevision := pod.Labels[label.IoIstioRev.Name]
	switch {
	case switched == "enabled":
		return forDefault(s, fmt.Sprintf("namespace %s has the label %s=enabled", ns.Name, namespaceLabel)), nil
	case switched != "":
		return fmt.Sprintf("namespace %s has the label %s=%s, which is neither enabled nor disabled", ns.Name, namespaceLabel, switched), nil
	case hasRevision:
		return forRevision(s, namespaceRevision, "namespace "+ns.Name), nil
	case podRevision != "":
		return forRevision(s, podRevision, "the pod"), nil
	case wanted:
		return forDefault(s, fmt.Sprintf("the pod says %s: \"true\"", label.SidecarInject.Name)), nil
	case s.EnableNamespacesByDefault:
		return "", nil
	}
	return fmt.Sprintf("namespace %s has not the label %s=enabled, and the pod does not ask for it", ns.Name, namespaceLabel), nil
}

// never names what no label changes.
func never(pod *corev1.Pod, ns Namespace, s Settings) string {
	switch {
	case slices.Contains(s.NeverNamespaces, ns.Name):
		return fmt.Sprintf("pods of namespace %s are never injected", ns.Name)
	case pod.Spec.HostNetwork:
		return "the pod uses the node's network (hostNetwork): rules for it would catch the whole node"
	case pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows:
		return "the pod is a Windows pod"
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return "the pod mirrors a static one, which the kubelet starts from its own file"
	case injected(pod):
		return alreadyInjected
	}
	return ""
}

func forRevision(s Settings, asked, who string) string {
	if asked == s.Revision {
		return ""
	}
	return fmt.Sprintf("%s: that is for revision %q, this injector is revision %q", who, asked, s.Revision)
}

func forDefault(s Settings, who string) string {
	if s.DefaultRevision {
		return ""
	}
	return fmt.Sprintf("%s: that is for the default revision, this injector is revision %q", who, s.Revision)
}

// wish reads what the pod itself says. The label counts; the annotation is its older form.
func wish(pod *corev1.Pod) (said, wanted bool, mistake *Mistake) {
	value, kind := pod.Labels[label.SidecarInject.Name], "label"
	if value == "" {
		value, kind = pod.Annotations[annotation.SidecarInject.Name], "annotation"
	}
	if value == "" {
		return false, false, nil
	}
	wanted, ok := parseBool(value)
	if !ok {
		return true, false, &Mistake{Field: fmt.Sprintf("%s %q", kind, label.SidecarInject.Name), Value: value, Problem: "is neither true nor false", Fix: boolFix}
	}
	return true, wanted, nil
}

const boolFix = `write "true" or "false", in quotes`

// parseBool takes what Istio and YAML take.
func parseBool(value string) (is, ok bool) {
	switch strings.ToLower(value) {
	case "true", "yes", "y", "on", "1":
		return true, true
	case "false", "no", "n", "off", "0":
		return false, true
	}
	return false, false
}

// alreadyInjected is why most second calls change nothing.
const alreadyInjected = "the pod has its proxy already"

// injected says whether the pod has what an injector gave it.
func injected(pod *corev1.Pod) bool {
	if pod.Annotations[annotation.SidecarStatus.Name] == "" {
		return false
	}
	isProxy := func(c corev1.Container) bool { return c.Name == ProxyName }
	return slices.ContainsFunc(pod.Spec.Containers, isProxy) || slices.ContainsFunc(pod.Spec.InitContainers, isProxy)
}
