package inject

import (
	"fmt"
	"maps"
	"slices"

	"istio.io/api/annotation"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// resourceRules are the annotations about resources. As in Istio, a pod with one of them gets none of the defaults.
var resourceRules = []struct {
	annotation string
	resource   corev1.ResourceName
	limit      bool
	example    string
}{
	{annotation.SidecarProxyCPU.Name, corev1.ResourceCPU, false, "100m"},
	{annotation.SidecarProxyMemory.Name, corev1.ResourceMemory, false, "128Mi"},
	{annotation.SidecarProxyCPULimit.Name, corev1.ResourceCPU, true, "2"},
	{annotation.SidecarProxyMemoryLimit.Name, corev1.ResourceMemory, true, "1Gi"},
}

func (r *reader) resources(into *corev1.ResourceRequirements) {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, rule := range resourceRules {
		value, ok := r.get(rule.annotation)
		if !ok {
			continue
		}
		q, err := resource.ParseQuantity(value)
		switch {
		case err != nil || q.Sign() <= 0:
			r.mistake(rule.annotation, value, "is no quantity", fmt.Sprintf("write one, as in %q", rule.example))
		case rule.limit:
			limits[rule.resource] = q
		default:
			requests[rule.resource] = q
		}
	}
	if len(requests)+len(limits) == 0 {
		return
	}
	*into = corev1.ResourceRequirements{}
	if len(requests) > 0 {
		into.Requests = requests
	}
	if len(limits) > 0 {
		into.Limits = limits
	}
	for _, m := range checkResources(*into) {
		for _, rule := range resourceRules {
			if string(rule.resource) == m.Field && !rule.limit {
				r.mistake(rule.annotation, m.Value, m.Problem, m.Fix)
			}
		}
	}
}

// checkResources finds requests above their limits, which the API server would refuse in words about a container that
// the user did not write. Field is the resource's name.
func checkResources(of corev1.ResourceRequirements) []Mistake {
	var found []Mistake
	for _, name := range slices.Sorted(maps.Keys(of.Requests)) {
		request := of.Requests[name]
		if limit, ok := of.Limits[name]; ok && request.Cmp(limit) > 0 {
			found = append(found, Mistake{
				Field: string(name), Value: request.String(), Problem: "is more than the limit " + limit.String(), Fix: "write at most as much, or raise the limit",
			})
		}
	}
	return found
}
