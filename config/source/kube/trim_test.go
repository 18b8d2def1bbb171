package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLeanPodAddresses: a pod keeps all its addresses, since its proxy may name any of them and serves all.
func TestLeanPodAddresses(t *testing.T) {
	pod := func(ips ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Status: corev1.PodStatus{PodIP: ips[0]}}
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
		return p
	}
	of := func(p *corev1.Pod) corev1.PodStatus { return leanPod(p).object.Spec.(*corev1.Pod).Status }
	both := pod("10.0.0.1", "fd00::1")
	if s := of(both); s.PodIP != "10.0.0.1" || !slices.Equal(s.PodIPs, both.Status.PodIPs) {
		t.Errorf("of two families: %+v", s)
	}
	if s := of(pod("10.0.0.1")); s.PodIP != "10.0.0.1" || s.PodIPs != nil {
		t.Errorf("one address is held twice: %+v", s)
	}
}

// TestLeanPodSidecar: who a pod is, and that it has a sidecar, is kept; what its other annotations say is not.
func TestLeanPodSidecar(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u", Annotations: map[string]string{"a": "b"}}}
	if o := leanPod(p).object; o.Annotations != nil || o.Spec.(*corev1.Pod).UID != "u" {
		t.Errorf("kept of it: %v, uid %q", o.Annotations, o.Spec.(*corev1.Pod).UID)
	}
	p.Annotations["sidecar.istio.io/status"] = `{"version": 1}`
	if o := leanPod(p).object; len(o.Annotations) != 1 {
		t.Errorf("an injected one keeps %v", o.Annotations)
	}
}
