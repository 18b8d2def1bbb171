package wire

import "testing"

// TestPodOfNode: of what is no node id nothing is taken.
func TestPodOfNode(t *testing.T) {
	for id, want := range map[string][2]string{
		"sidecar~10.0.0.1~cart.v1-0.shop~shop.svc.cluster.local": {"cart.v1-0", "shop"},
		"router~::1~gateway-7c.istio-system~istio-system.svc":    {"gateway-7c", "istio-system"},
		"sidecar~10.0.0.1~cart~shop.svc":                         {},
		"sidecar~10.0.0.1~cart.shop":                             {},
		"sidecar~10.0.0.1~cart.shop~shop.svc~more":               {},
		"sidecar": {},
		"":        {},
	} {
		if pod, namespace := PodOfNode(id); pod != want[0] || namespace != want[1] {
			t.Errorf("%q: %q of %q", id, pod, namespace)
		}
	}
}
