package status_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestParameters: a Gateway whose parameters cannot be any is not accepted, and what it opens stays open; so is a class.
func TestParameters(t *testing.T) {
	for ref, refused := range map[string]bool{
		`{group: "", kind: ConfigMap, name: web}`:   false,
		`{group: "", kind: Secret, name: web}`:      true,
		`{group: a.test, kind: Tuned, name: web}`:   true,
		`{group: apps, kind: ConfigMap, name: web}`: true,
	} {
		s, _ := apply(t, registry.New(settings()), strings.Replace(gateway, "spec:", "spec:\n  infrastructure: {parametersRef: "+ref+"}", 1))
		told, ours := status.Gateway(s, gatewayKey)
		if !ours {
			t.Fatalf("the Gateway is not ours: %s", gateway)
		}
		if got := said(told.Conditions); strings.Contains(got, "Accepted=False/InvalidParameters") != refused || !strings.Contains(got, "Programmed=True") {
			t.Errorf("%s: %s", ref, got)
		}
		class := "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: sallyport}\nspec: {controllerName: egress.sallyport.io/gateway-controller, parametersRef: " + strings.Replace(ref, "}", ", namespace: istio-system}", 1) + "}\n"
		s, _ = apply(t, registry.New(settings()), class)
		of, ours := status.Class(s, config.Key{Kind: config.KindGatewayClass, Name: "sallyport"})
		if got := said(of.Conditions); !ours || strings.Contains(got, "Accepted=False/InvalidParameters") != refused {
			t.Errorf("%s: %s", ref, got)
		}
	}
}
