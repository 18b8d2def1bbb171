package translate_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

const telemetryServices = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.9, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}]}
`

// recorded is what a listener of what comes in records of it, in the words of sallyport.audit.mesh.
func recorded(listener string) string {
	switch {
	case !strings.Contains(listener, string(wire.InboundHTTP)):
		return mesh.MeshOff
	case strings.Contains(listener, "denied"):
		return mesh.MeshDenied
	default:
		return mesh.MeshAll
	}
}

// TestTelemetries: what a Telemetry says of access logging counts for the records of what comes to pods, the narrower and the older before others, and where one says nothing
// that can be said of those, the wider setting stays.
func TestTelemetries(t *testing.T) {
	said := func(ns, name, created, spec string) string {
		return "---\napiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: " + name + ", namespace: " + ns + ", creationTimestamp: \"" + created + "T00:00:00Z\"}\nspec: " + spec + "\n"
	}
	const (
		all, off = "{accessLogging: [{providers: [{name: envoy}]}]}", "{accessLogging: [{disabled: true}]}"
		web      = "selector: {matchLabels: {app: web}}, "
		early    = "2026-01-01"
		late     = "2026-02-01"
	)
	of := func(who, what string) string { return "{" + who + what[1:] }
	for name, c := range map[string]struct{ objects, mesh, want string }{
		"nobody":                     {"", mesh.MeshDenied, mesh.MeshDenied},
		"the mesh, all":              {said("istio-system", "a", early, all), mesh.MeshDenied, mesh.MeshAll},
		"the mesh, none":             {said("istio-system", "a", early, off), mesh.MeshAll, mesh.MeshOff},
		"the namespace":              {said("istio-system", "a", early, all) + said("shop", "a", early, off), mesh.MeshDenied, mesh.MeshOff},
		"another namespace":          {said("bank", "a", early, off), mesh.MeshAll, mesh.MeshAll},
		"the workload":               {said("shop", "a", early, off) + said("shop", "b", late, of(web, all)), mesh.MeshDenied, mesh.MeshAll},
		"another workload":           {said("shop", "b", late, "{selector: {matchLabels: {app: db}}, accessLogging: [{disabled: true}]}"), mesh.MeshAll, mesh.MeshAll},
		"of the root's, by labels":   {said("istio-system", "b", late, of(web, off)), mesh.MeshAll, mesh.MeshAll},
		"the older":                  {said("shop", "z", early, all) + said("shop", "a", late, off), mesh.MeshDenied, mesh.MeshAll},
		"who is asked":               {said("shop", "a", early, "{accessLogging: [{match: {mode: SERVER}}]}"), mesh.MeshOff, mesh.MeshAll},
		"who asks":                   {said("shop", "a", early, "{accessLogging: [{match: {mode: CLIENT}, disabled: true}]}"), mesh.MeshAll, mesh.MeshAll},
		"an expression":              {said("shop", "a", early, "{accessLogging: [{filter: {expression: 'response.code >= 400'}}]}"), mesh.MeshDenied, mesh.MeshDenied},
		"one of two":                 {said("shop", "a", early, "{accessLogging: [{providers: [{name: one}], disabled: true}, {providers: [{name: two}]}]}"), mesh.MeshDenied, mesh.MeshAll},
		"metrics":                    {said("istio-system", "a", early, all) + said("shop", "a", early, "{metrics: [{providers: [{name: prometheus}]}]}"), mesh.MeshDenied, mesh.MeshAll},
		"a waypoint's":               {said("shop", "a", early, "{targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}], accessLogging: [{disabled: true}]}"), mesh.MeshAll, mesh.MeshAll},
		"the namespace, beside both": {said("shop", "a", early, off) + said("shop", "b", late, of(web, "{accessLogging: [{filter: {expression: 'false'}}]}")), mesh.MeshAll, mesh.MeshOff},
	} {
		settings := mesh.Default()
		settings.MutualTLS, settings.Audit.Mesh = true, c.mesh
		read := decode.File("a.yaml", []byte(telemetryServices+c.objects))
		if len(read.Findings) > 0 {
			t.Fatal(read.Findings)
		}
		s := testCase{objects: read.Objects, mesh: settings}.snapshot()
		labels := map[string]string{"app": "web", "security.istio.io/tlsMode": "istio"}
		v := translate.NewTranslator().Build(s, translate.Classify(s, translate.Node{ID: "sidecar~10.1.0.1~web-1.shop~shop.svc.cluster.local", Namespace: "shop", Labels: labels}))
		l, there := v.Get(resource.Listener, "virtualInbound")
		if got := recorded(string(l.Value())); !there || got != c.want {
			t.Errorf("%s: a sidecar records %s, want %s", name, got, c.want)
		}
		templates, _ := (&translate.PodListeners{}).Of(s, "shop/web-1", "shop", map[string]string{"app": "web"})
		if c.mesh == c.want {
			if templates != nil {
				t.Errorf("%s: a node's pod has listeners of its own", name)
			}
			continue
		}
		if text := string(templates[ambient.PodInbound]); templates == nil || (c.want != mesh.MeshOff) != strings.Contains(text, "inbound-") {
			t.Errorf("%s: a node's pod records otherwise", name)
		}
	}
}

// TestTelemetriesOfWaypoints: a Telemetry whose targetRefs name a waypoint is for that one alone.
func TestTelemetriesOfWaypoints(t *testing.T) {
	read := decode.File("a.yaml", []byte(`apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: a, namespace: shop}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}], accessLogging: [{providers: [{name: envoy}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: other, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
`))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	s := testCase{objects: read.Objects, mesh: mesh.Default()}.snapshot()
	for name, want := range map[string]string{"waypoint": mesh.MeshAll, "other": ""} {
		c := translate.Classify(s, translate.Node{ID: "waypoint~10.1.0.1~w.shop~shop.svc.cluster.local", Namespace: "shop", Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": name}})
		if c.Kind != translate.Waypoint || c.Recorded != want {
			t.Errorf("%s: %q, want %q", name, c.Recorded, want)
		}
	}
}
