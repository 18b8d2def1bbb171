package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// calm has a pod that is to be served by its node's proxy, and an agent there that serves it.
func calm(o *Objects) {
	ns := namespace("calm", "")
	ns.Labels = map[string]string{"istio.io/dataplane-mode": "ambient"}
	o.Namespaces = append(o.Namespaces, ns)
	pod := plain("web-7d-calm")
	pod.Namespace, pod.Spec.NodeName = "calm", "one"
	o.Pods = append(o.Pods, pod)
	o.Served = map[string][]Served{"one": {{Pod: "calm/web-7d-calm"}}}
}

func TestAmbientPods(t *testing.T) {
	o := good(t)
	calm(o)
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("a pod that is served: %v", found)
	}
	o.Pods[len(o.Pods)-1].Labels["istio.io/dataplane-mode"] = "none"
	o.Served = nil
	if found := Cluster(o, now); len(found) > 0 {
		t.Errorf("a pod that says none: %v", found)
	}
	last := func(change func(*corev1.Pod)) func(*Objects) {
		return func(o *Objects) { change(&o.Pods[len(o.Pods)-1]) }
	}
	expectAll(t, map[string]expectation{
		"no agent":         {both(calm, func(o *Objects) { o.Served = nil }), `error pod web-7d-calm: Deployment calm/web: it is to be in the mesh without a sidecar, and no agent is ready on its node one`},
		"not told of":      {both(calm, func(o *Objects) { o.Served["one"] = nil }), "its node's agent was not told of it"},
		"not served":       {both(calm, func(o *Objects) { o.Served["one"][0].Why = "it is odd" }), "its node's proxy does not serve it: it is odd"},
		"the node's":       {both(calm, last(func(p *corev1.Pod) { p.Spec.HostNetwork = true })), `spec.template.spec.hostNetwork: "true"`},
		"by its own label": {both(calm, last(func(p *corev1.Pod) { p.Namespace, p.Labels["istio.io/dataplane-mode"] = "other", "ambient" })), "Deployment other/web: it is to be in the mesh without a sidecar"},
	})
}
