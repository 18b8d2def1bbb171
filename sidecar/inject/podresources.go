package inject

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// within fits the proxy's resources into what the pod says for all its containers together (spec.resources): the API server refuses a pod whose
// containers ask for more than that in sum, or one of which has a higher limit. What an annotation asks for is not changed, but refused.
func (r *reader) within(pod *corev1.Pod, into *corev1.ResourceRequirements) {
	if pod.Spec.Resources == nil {
		return
	}
	whole := *pod.Spec.Resources
	*into = *into.DeepCopy() // the settings' are everybody's
	for _, name := range slices.Sorted(maps.Keys(into.Limits)) {
		limit := into.Limits[name]
		most, said := whole.Limits[name]
		switch {
		case !said || limit.Cmp(most) <= 0:
		case r.tooMuch(name, true, limit, "spec.resources.limits: "+most.String()):
		default:
			into.Limits[name] = most.DeepCopy()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(whole.Requests)) {
		r.requestWithin(pod, into, name, whole.Requests[name])
	}
	for _, name := range slices.Sorted(maps.Keys(whole.Limits)) {
		if _, said := whole.Requests[name]; !said { // Kubernetes makes the request of the containers', which may not be more than the limit
			r.requestWithin(pod, into, name, whole.Limits[name])
		}
	}
}

// requestWithin lets the proxy ask for what the pod's own containers leave of all. Nothing is written as 0: a request that is left out is the limit.
func (r *reader) requestWithin(pod *corev1.Pod, into *corev1.ResourceRequirements, name corev1.ResourceName, all resource.Quantity) {
	request, said := into.Requests[name]
	limit, limited := into.Limits[name]
	if !said && !limited {
		return
	}
	if !said || limited && request.Cmp(limit) > 0 {
		request = limit
	}
	left := all.DeepCopy()
	left.Sub(requested(&pod.Spec, name))
	if left.Sign() < 0 {
		left = resource.Quantity{Format: left.Format}
	}
	if into.Requests == nil {
		into.Requests = corev1.ResourceList{}
	}
	switch {
	case request.Cmp(left) <= 0:
		into.Requests[name] = request
	case r.tooMuch(name, false, request, "the pod's own containers leave of spec.resources: "+left.String()):
	default:
		into.Requests[name] = left
		r.warn("spec.resources: the proxy asks for %s %q, which the pod's own containers leave of %q, and not for %q: it gets less where the node is short; write more in spec.resources.requests", name, left.String(), all.String(), request.String())
	}
}

// tooMuch refuses what an annotation asks for.
func (r *reader) tooMuch(name corev1.ResourceName, limit bool, value resource.Quantity, than string) bool {
	for _, rule := range resourceRules {
		if written, ok := r.annotations[rule.annotation]; ok && rule.resource == name && rule.limit == limit {
			r.mistake(rule.annotation, cmp.Or(written, value.String()), "is more than "+than, fmt.Sprintf("write at most as much, or raise spec.resources of the pod (%s)", name))
			return true
		}
	}
	return false
}

// requested is what the pod's own containers ask for at the time when they ask for most, as Kubernetes counts it.
func requested(spec *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	asks := func(c corev1.Container) resource.Quantity {
		if q, ok := c.Resources.Requests[name]; ok {
			return q
		}
		return c.Resources.Limits[name]
	}
	var all, running, most resource.Quantity
	for _, c := range spec.Containers {
		if c.Name != ProxyName {
			all.Add(asks(c))
		}
	}
	for _, c := range spec.InitContainers {
		if c.Name == ProxyName || c.Name == InitName {
			continue
		}
		now := running.DeepCopy()
		now.Add(asks(c))
		if keepsRunning(c) {
			running = now
		}
		if now.Cmp(most) > 0 {
			most = now
		}
	}
	if all.Add(running); all.Cmp(most) > 0 {
		return all
	}
	return most
}
