package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// lets are policies of the root namespace that let out what nobody registered, beside a registration of one of their hosts.
const lets = `
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: lets, namespace: istio-system}
spec:
  namespaces: {names: [default]}
  serviceAccounts: [runner]
  default: Allow
  rules:
  - {name: not-this, hosts: [no.mirror.test], action: Deny}
  - {name: plain, hosts: [plain.mirror.test], action: Allow}
  - {name: mirrors, hosts: ["*.mirror.test", exact.test, ours.test], action: Allow, unregistered: true, expires: 2030-01-01T00:00:00Z}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: observed, namespace: istio-system}
spec:
  mode: Observe
  rules: [{hosts: [observed.test], action: Allow, unregistered: true}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ours, namespace: default}
spec: {hosts: [ours.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: open, namespace: default}
spec: {workloadSelector: {labels: {app: open}}, outboundTrafficPolicy: {mode: ALLOW_ANY}}
`

// TestLetOut: under REGISTRY_ONLY a rule lets out those whom its policy selects, and nobody else, until it ends; what is registered is as it
// was, and what is under ALLOW_ANY.
func TestLetOut(t *testing.T) {
	s := read(t, false, lets)
	before, after := time.Date(2029, 12, 31, 23, 59, 59, 0, time.UTC), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		account, ns, app, url string
		at                    time.Time
		path, by, rule        string // "" for a denial that no policy's rule is behind
	}{
		{"runner", "default", "", "https://a.mirror.test", before, "gateway", "lets", "mirrors"},
		{"runner", "default", "", "http://exact.test", before, "gateway", "lets", "mirrors"},
		{"runner", "default", "", "https://exact.test", after, "", "mesh", "unregistered"},
		{"runner", "default", "", "https://no.mirror.test", before, "", "lets", "not-this"},
		{"runner", "default", "", "https://plain.mirror.test", before, "", "mesh", "unregistered"}, // the first rule that matches does not let it out
		{"runner", "default", "", "https://exact.test:8443", before, "", "mesh", "outboundTrafficPolicy.mode: REGISTRY_ONLY"},
		{"app", "default", "", "https://exact.test", before, "", "mesh", "unregistered"},
		{"app", "default", "", "https://ours.test", before, "gateway", "ours", "hosts: ours.test"}, // somebody registered it
		{"runner", "default", "", "https://ours.test", before, "gateway", "lets", "mirrors"},
		{"runner", "shop", "", "https://exact.test", before, "", "mesh", "outboundTrafficPolicy.mode: REGISTRY_ONLY"},
		{"app", "default", "open", "https://exact.test", before, "passthrough", "open", "outboundTrafficPolicy.mode: ALLOW_ANY"},
		{"runner", "default", "", "https://observed.test", before, "", "mesh", "outboundTrafficPolicy.mode: REGISTRY_ONLY"},
	} {
		d := parse(t, c.url)
		d.At = c.at
		v := policy.Decide(s, policy.Workload{Namespace: c.ns, Name: "app", Account: c.account, Labels: map[string]string{"app": c.app}}, d)
		by, rule := v.DecidedBy.Name, v.DecidedBy.Rule
		if v.Allowed && v.Ruling != nil && v.Ruling.Rule != nil {
			by, rule = v.Ruling.Policy.Key.Name, v.Ruling.RuleName()
		}
		if v.Allowed != (c.path != "") || v.Allowed && v.Path != c.path || by != c.by || rule != c.rule {
			t.Errorf("%s/%s %s at %s: %t by %s, %s, rule %q: %s", c.ns, c.account, c.url, c.at, v.Allowed, v.Path, by, rule, v.Reason)
		}
	}
	v := policy.DecideForward(s, "default", parse(t, "https://exact.test"))
	if v.Allowed || v.DecidedBy.Rule != "unregistered" || !strings.Contains(v.Reason, "unregistered: true") {
		t.Errorf("the forward proxy, which is somebody else: %+v", v)
	}
}

// TestWhyNotTheMeshs: of the mesh's own Services it is said what keeps a workload from them, by whatever name it asks, and no entry is suggested in their place; of what is known
// by addresses, that one is to be asked with.
func TestWhyNotTheMeshs(t *testing.T) {
	s := read(t, false, `
apiVersion: v1
kind: Service
metadata: {name: catalog, namespace: shop}
spec: {clusterIP: 10.0.0.1, selector: {app: catalog}, ports: [{name: http, port: 9080}]}
---
apiVersion: v1
kind: Service
metadata: {name: own, namespace: shop, annotations: {networking.istio.io/exportTo: "."}}
spec: {clusterIP: 10.0.0.2, selector: {app: own}, ports: [{name: http, port: 9080}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: catalog-9999, namespace: shop}
spec: {hosts: [catalog], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 9999, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow, namespace: web}
spec: {egress: [{hosts: ["./*"]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: mysql, namespace: shop}
spec:
  hosts: [mysql.example.net]
  addresses: [198.51.100.0/24]
  ports: [{number: 3306, name: mysql, protocol: TCP}]
  resolution: STATIC
  endpoints: [{address: 198.51.100.7}]
`)
	const hides = "Service shop/catalog registers the host, but Sidecar web/narrow hides it from this workload: add shop/catalog.shop.svc.cluster.local to the hosts of a listener there"
	for _, c := range []struct{ ns, url, says string }{
		{"web", "http://catalog.shop.svc.cluster.local:9080", hides},
		{"web", "http://catalog.shop:9080", hides},
		{"web", "http://catalog.shop:9999", hides},
		{"bank", "http://own.shop:9080", "Service shop/own registers the host, but does not export it to namespace bank"},
		{"shop", "http://catalog:9999", "Service shop/catalog registers the host, but not port 9999: add the port there"},
		{"shop", "tcp://mysql.example.net:3306", "ServiceEntry shop/mysql registers the host, but what comes to its port 3306 is known by its addresses (198.51.100.0/24), and mysql.example.net shows none of them: ask with one"},
		{"shop", "tcp://mysql.example.net:3307", "ServiceEntry shop/mysql registers the host, but not port 3307: add the port there"},
	} {
		w, d := policy.Workload{Namespace: c.ns, Name: "app"}, parse(t, c.url)
		v := policy.Decide(s, w, d)
		if suggestion := policy.Suggestion(w, d, v); v.Allowed || !strings.HasPrefix(v.Reason, c.says) || suggestion != "" {
			t.Errorf("%s %s: %t, %s; suggested: %s", c.ns, c.url, v.Allowed, v.Reason, suggestion)
		}
	}
}
