package translate_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

const revisedEntries = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: tls, port: 443}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: shop, annotations: {note: one}}
spec:
  hosts: [e.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: d, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [d.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: other, namespace: shop}
spec: {hosts: [o.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: s, namespace: shop}
spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}, egress: [{hosts: ["*/*"]}]}
`

// revisions are, in the views of a gateway and of a sidecar, the versions of all resources, and the objects.
func revisions(t *testing.T, yaml string) (versions map[string]string, objects map[string]config.Object, wires map[string]string) {
	t.Helper()
	result := decode.File("e.yaml", []byte(yaml))
	var changes []config.Change
	objects = map[string]config.Object{}
	for i := range result.Objects {
		changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
		objects[result.Objects[i].Name] = result.Objects[i]
	}
	if len(result.Rejected) > 0 {
		t.Fatal(result.Findings)
	}
	cfg := mesh.Default()
	s, _ := registry.New(&cfg).Apply(changes)
	versions, wires = map[string]string{}, map[string]string{}
	for _, n := range []translate.Node{
		{ID: "router~10.0.0.1~istio-egressgateway-0.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "egressgateway"}},
		{ID: "sidecar~10.0.0.2~p.shop~shop.svc.cluster.local", Namespace: "shop"},
	} {
		v := translate.NewTranslator().Build(s, translate.Classify(s, n))
		for _, typ := range resource.Types() {
			v.Walk(typ, func(r *resource.Resource) bool {
				kind, _, _ := strings.Cut(n.ID, "~")
				name := kind + " " + strings.TrimPrefix(typ.URL(), "type.googleapis.com/envoy.config.") + " " + r.Name
				versions[name], wires[name] = r.Version, string(r.Value())
				return true
			})
		}
	}
	return versions, objects, wires
}

// TestRevisionsInRows: what decides is in its rows, and an edit of it touches those, and nothing that keeps connections to share.
func TestRevisionsInRows(t *testing.T) {
	was, objects, wires := revisions(t, revisedEntries)
	for name, of := range map[string]string{
		"router route.v3.VirtualHost https.443.egress/e.test:80":  "e",
		"router route.v3.VirtualHost https.443.egress/e.test:443": "e",
		"router cluster.v3.Cluster outbound|443||e.test":          "e",
		"router cluster.v3.Cluster outbound|443||o.test":          "other",
		"sidecar route.v3.VirtualHost 80/d.test":                  "d",
		"sidecar cluster.v3.Cluster outbound|443||d.test":         "d",
		"router cluster.v3.Cluster outbound|80||e.test":           "", // its connections are shared by requests
		"sidecar cluster.v3.Cluster outbound|80||d.test":          "",
		"sidecar route.v3.VirtualHost 443/e.test":                 "", // the gateway records it
		"sidecar route.v3.RouteConfiguration 443":                 "any",
		"router route.v3.RouteConfiguration https.443.egress":     "any",
	} {
		wire, ok := wires[name]
		if !ok {
			t.Errorf("there is no %s; there are %d resources", name, len(wires))
			continue
		}
		switch {
		case of == "":
			for _, o := range objects {
				if strings.Contains(wire, o.Revision) {
					t.Errorf("%s has the revision of %s", name, o.Key)
				}
			}
		case of == "any":
			if !strings.Contains(wire, "revision") {
				t.Errorf("%s has none", name)
			}
		case !strings.Contains(wire, objects[of].Revision):
			t.Errorf("%s has not the revision of %s", name, of)
		}
	}
	for _, tt := range []struct {
		name, old, new string
		changed        []string
	}{
		{"a note", "note: one", "note: two", nil},
		{"another setting of the Sidecar", `["*/*"]`, `["*/*", "shop/*"]`, nil},
		{"who may use a host", "[e.test]\n  location", "[e.test]\n  exportTo: ['*', shop]\n  location", []string{"https.443.egress/e.test:80", "https.443.egress/e.test:443", "outbound|443||e.test"}},
	} {
		now, _, _ := revisions(t, strings.Replace(revisedEntries, tt.old, tt.new, 1))
		var changed []string
		for name, version := range now {
			if was[name] != version {
				changed = append(changed, name)
			}
		}
		if len(changed) != len(tt.changed) {
			t.Errorf("%s changed %q, want %q", tt.name, changed, tt.changed)
			continue
		}
		for _, want := range tt.changed {
			if !strings.Contains(strings.Join(changed, "\n")+"\n", " "+want+"\n") {
				t.Errorf("%s changed %q, want %q", tt.name, changed, tt.changed)
			}
		}
	}
}
