package translate_test

import (
	"testing"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestNoRuleChangesTheWayToAnExit: whatever DestinationRules for an egress gateway's Service say of TLS, what leaves goes to the gateway as it does without them: by mutual TLS of the mesh.
func TestNoRuleChangesTheWayToAnExit(t *testing.T) {
	const leg = "outbound|443||istio-egressgateway.istio-system.svc.cluster.local"
	versions := func(rule string) (int, string) {
		s := snapshotOf(t, rule, exitsOfNetworks+exitPod("near", "10.4.0.1", "east")+rule)
		view := translate.NewTranslator().Build(s, translate.Classify(s, translate.Node{ID: "sidecar~10.4.0.9~p.shop~shop.svc.cluster.local", Namespace: "shop", Account: "app"}))
		n, version := 0, ""
		view.Walk(resource.Cluster, func(r *resource.Resource) bool {
			if r.Name == leg {
				n, version = n+1, r.Version
			}
			return true
		})
		return n, version
	}
	n, want := versions("")
	if n != 1 {
		t.Fatalf("%d clusters %s", n, leg)
	}
	for _, ns := range []string{"istio-system", "shop"} {
		for _, policy := range []string{
			"{tls: {mode: DISABLE}}", "{tls: {mode: SIMPLE}}", "{tls: {mode: MUTUAL, credentialName: own}}", "{tls: {mode: ISTIO_MUTUAL, sni: a.test, subjectAltNames: [other]}}",
			"{portLevelSettings: [{port: {number: 443}, tls: {mode: DISABLE}}]}",
		} {
			if n, got := versions("---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: exit, namespace: " + ns + "}\nspec: {host: istio-egressgateway.istio-system.svc.cluster.local, trafficPolicy: " + policy + "}\n"); n != 1 || got != want {
				t.Errorf("a rule of %s, %s: %d clusters, another than without it: %v", ns, policy, n, got != want)
			}
		}
	}
}
