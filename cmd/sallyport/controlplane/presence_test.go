package controlplane

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// TestPodSince: a proxy is there since its pod is; who has none is known since he was heard of.
func TestPodSince(t *testing.T) {
	created := time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC)
	v := newInventory()
	key := config.Key{Kind: config.KindPod, Namespace: "shop", Name: "cart.v1-0"}
	v.apply([]config.Change{{Key: key, Object: &config.Object{Key: key, Created: created, Spec: &corev1.Pod{}}}})
	for id, want := range map[string]time.Time{
		"sidecar~10.0.0.1~cart.v1-0.shop~shop.svc.cluster.local": created,
		"sidecar~10.0.0.1~cart.v1-0.bank~bank.svc.cluster.local": {},
		"sidecar~10.0.0.1~cart~shop.svc":                         {},
		"sidecar":                                                {},
		"":                                                       {},
	} {
		if got := v.podSince(id); !got.Equal(want) {
			t.Errorf("%q: %s", id, got)
		}
	}
}
