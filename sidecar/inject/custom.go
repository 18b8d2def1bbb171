package inject

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// custom are containers that a pod's author wrote under the proxy's names, to change what the injector makes: as in Istio
// they are merged over it, field by field.
type custom map[string]corev1.Container

// autoImage stands for the injector's own image, Istio's word.
const autoImage = "auto"

// takeCustom takes them out of the pod.
func takeCustom(pod *corev1.Pod) (custom, *Mistake) {
	found := custom{}
	var mistake *Mistake
	take := func(c corev1.Container) bool {
		if c.Name != ProxyName && c.Name != InitName {
			return false
		}
		if _, twice := found[c.Name]; twice {
			mistake = &Mistake{Field: "container", Value: c.Name, Problem: "is there twice", Fix: "keep one of the two"}
		}
		if c.Image == autoImage {
			c.Image = ""
		}
		found[c.Name] = c
		return true
	}
	pod.Spec.Containers = slices.DeleteFunc(pod.Spec.Containers, take)
	pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, take)
	return found, mistake
}

// apply merges what the author wrote over the injector's container.
func (c custom) apply(made corev1.Container) (corev1.Container, *Mistake) {
	over, ok := c[made.Name]
	if !ok {
		return made, nil
	}
	made = *made.DeepCopy()
	giveWay(&made, over)
	merged, err := mergeContainer(made, over)
	if err != nil {
		return made, &Mistake{Field: "container", Value: made.Name, Problem: "cannot be merged with the injector's: " + err.Error(), Fix: "write only what shall differ"}
	}
	return merged, nil
}

// giveWay takes the injector's handlers out where the author wrote one of another kind: a probe, or hook, with two is no valid pod.
func giveWay(made *corev1.Container, over corev1.Container) {
	for _, p := range []struct{ made, over *corev1.Probe }{
		{made.ReadinessProbe, over.ReadinessProbe}, {made.StartupProbe, over.StartupProbe}, {made.LivenessProbe, over.LivenessProbe},
	} {
		if p.made != nil && p.over != nil && p.over.ProbeHandler != (corev1.ProbeHandler{}) && (p.made.HTTPGet == nil || p.over.HTTPGet == nil) {
			p.made.ProbeHandler = corev1.ProbeHandler{}
		}
	}
	if made.Lifecycle == nil || over.Lifecycle == nil {
		return
	}
	for _, h := range []struct{ made, over *corev1.LifecycleHandler }{
		{made.Lifecycle.PostStart, over.Lifecycle.PostStart}, {made.Lifecycle.PreStop, over.Lifecycle.PreStop},
	} {
		if h.made != nil && h.over != nil && *h.over != (corev1.LifecycleHandler{}) && (h.made.Exec == nil || h.over.Exec == nil) {
			*h.made = corev1.LifecycleHandler{}
		}
	}
}

func mergeContainer(made, over corev1.Container) (merged corev1.Container, err error) {
	base, err := json.Marshal(made)
	if err != nil {
		return merged, err
	}
	patch, err := json.Marshal(over)
	if err != nil {
		return merged, err
	}
	// What is not written must not appear as an empty value.
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		return merged, err
	}
	for name, value := range fields {
		if empty, ok := value.(map[string]any); ok && len(empty) == 0 || value == "" {
			delete(fields, name)
		}
	}
	if patch, err = json.Marshal(fields); err != nil {
		return merged, err
	}
	out, err := strategicpatch.StrategicMergePatch(base, patch, corev1.Container{})
	if err != nil {
		return merged, err
	}
	err = json.Unmarshal(out, &merged)
	return merged, err
}
