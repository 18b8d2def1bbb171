package policy_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// shop is a namespace with what Istio's users have in theirs. Nobody exports anything to it by name.
const shop = `
apiVersion: v1
kind: Service
metadata: {name: kubernetes, namespace: default}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443, targetPort: 6443}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.20, ports: [{name: http, port: 80}, {name: https, port: 443}, {name: tls-x, port: 9443}, {port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: pods, namespace: shop}
spec: {clusterIP: None, selector: {app: pods}, ports: [{name: http, port: 80}, {name: tcp-db, port: 3307}]}
---
apiVersion: v1
kind: Pod
metadata: {name: pods-0, namespace: shop, labels: {app: pods}}
status: {podIP: 10.0.0.7, phase: Running}
---
apiVersion: v1
kind: Service
metadata: {name: site, namespace: shop}
spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: site-of-site, namespace: shop}
spec: {type: ExternalName, externalName: site.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: round, namespace: shop}
spec: {type: ExternalName, externalName: round.shop.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: ext, namespace: shop}
spec: {type: ExternalName, externalName: ext.example}
---
apiVersion: v1
kind: Service
metadata: {name: nowhere, namespace: shop}
spec: {type: ExternalName, externalName: nobody.example}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ext, namespace: shop}
spec:
  hosts: [ext.example]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}, {number: 5432, name: pg, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cdn, namespace: shop}
spec:
  hosts: [cdn.example]
  location: MESH_EXTERNAL
  resolution: DNS
  addresses: [203.0.113.7, 198.51.100.0/24]
  ports: [{number: 443, name: https, protocol: HTTPS}, {number: 80, name: http, protocol: HTTP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: net, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [net.example]
  location: MESH_EXTERNAL
  resolution: NONE
  addresses: [192.0.2.0/24]
  ports: [{number: 6000, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: chosen, namespace: shop}
spec:
  hosts: [chosen.example]
  location: MESH_EXTERNAL
  resolution: NONE
  addresses: [203.0.113.128/28, 172.20.0.0/16, 172.21.0.5]
  ports: [{number: 6500, name: tcp, protocol: TCP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: one, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [one.example]
  location: MESH_EXTERNAL
  resolution: STATIC
  addresses: [192.0.2.77]
  endpoints: [{address: 203.0.113.99}]
  ports: [{number: 6000, name: tcp, protocol: TCP}, {number: 6443, name: tls, protocol: TLS}]
`

// TestTraffic is Istio's meaning of names and addresses, case by case: to which cluster it goes under REGISTRY_ONLY, "" for nowhere,
// and under ALLOW_ANY.
func TestTraffic(t *testing.T) {
	const (
		web, api, pods = "web.shop.svc.cluster.local", "kubernetes.default.svc.cluster.local", "pods.shop.svc.cluster.local"
		pass           = "PassthroughCluster"
	)
	gateway := func(string) string { return "outbound|443||istio-egressgateway.istio-system.svc.cluster.local" }
	to := func(port, host string) string { return "outbound|" + port + "||" + host }
	closed, open := readFor(t, false, false, shop), readFor(t, true, false, shop)
	from := policy.Workload{Namespace: "shop", Name: "app"}
	for _, tt := range []struct{ url, closed, open string }{
		// by the address of a service of the mesh, TLS needs no name
		{"https://10.96.0.1", to("443", api), to("443", api)},
		{"tcp://10.96.0.1:443", to("443", api), to("443", api)},
		{"http://10.96.0.1:443", to("443", api), to("443", api)},
		{"https://10.96.0.1:6443", "", pass},
		{"https://kubernetes.default", to("443", api), to("443", api)},
		{"https://kubernetes.default.svc", to("443", api), to("443", api)},
		{"https://kubernetes", "", pass},
		// short names, in the own namespace
		{"http://web", to("80", web), to("80", web)},
		{"http://web.shop", to("80", web), to("80", web)},
		{"http://web.shop.svc", to("80", web), to("80", web)},
		{"http://web.shop.svc.cluster.local", to("80", web), to("80", web)},
		{"http://web.shop.svc.cluster.local:81", "", pass},
		{"https://web", to("443", web), to("443", web)},
		{"http://web:443", to("443", web), to("443", web)},
		{"tcp://web:9443", to("9443", web), to("9443", web)},
		{"tcp://web:5432", to("5432", web), to("5432", web)},
		{"tls://web:5432", to("5432", web), to("5432", web)},
		{"http://10.96.0.20", to("80", web), to("80", web)},
		{"https://10.96.0.20:80", "", pass},
		{"https://10.96.0.20", to("443", web), to("443", web)},
		{"tcp://10.96.0.20:5432", to("5432", web), to("5432", web)},
		// headless: where the client goes
		{"http://pods", to("80", pods), to("80", pods)},
		{"http://pods-0.pods", to("80", pods), to("80", pods)},
		{"http://pods-0.pods.shop", to("80", pods), to("80", pods)},
		{"http://pods-0.pods.shop.svc.cluster.local", to("80", pods), to("80", pods)},
		{"http://pods-0.web.shop.svc.cluster.local", "", pass},
		{"http://10.0.0.7", to("80", pods), to("80", pods)},
		{"tcp://10.0.0.7:3307", to("3307", pods), to("3307", pods)},
		{"tcp://pods-0.pods:3307", to("3307", pods), to("3307", pods)},
		{"tcp://10.0.0.7:3308", "", pass},
		{"tcp://10.0.0.8:3307", "", pass},
		// other names
		{"http://site", to("80", web), to("80", web)},
		{"http://site.shop.svc.cluster.local", to("80", web), to("80", web)},
		{"http://site-of-site.shop", to("80", web), to("80", web)},
		{"https://site", to("443", web), to("443", web)},
		{"tcp://site:5432", to("5432", web), to("5432", web)},
		{"http://round", "", pass},
		{"http://ext", gateway(""), gateway("")},
		{"tcp://ext.shop:5432", gateway(""), gateway("")},
		{"http://nowhere", "", pass},
		// registered outside
		{"https://203.0.113.7", gateway(""), gateway("")},
		{"https://198.51.100.9", gateway(""), gateway("")},
		{"tcp://198.51.100.9:443", "", pass},
		{"http://203.0.113.7", gateway(""), gateway("")},
		{"https://203.0.113.7:80", "", pass},
		{"http://198.51.100.9", "", pass},
		{"tcp://192.0.2.5:6000", to("6000", "net.example"), to("6000", "net.example")},
		{"http://192.0.2.5:6000", to("6000", "net.example"), to("6000", "net.example")},
		{"https://192.0.2.5:6000", to("6000", "net.example"), to("6000", "net.example")},
		{"tcp://192.0.2.77:6000", to("6000", "one.example"), to("6000", "one.example")}, // one address comes before a range
		{"https://192.0.2.77:6443", to("6443", "one.example"), to("6443", "one.example")},
		{"tcp://192.0.2.5:6001", "", pass},
		{"tcp://203.0.113.130:6500", gateway(""), gateway("")},
		{"tcp://172.20.1.1:6500", "", ""}, {"tcp://172.21.0.5:6500", "", ""}, // a gateway does not go inside
		// nobody's
		{"http://nobody.example", "", pass}, {"https://nobody.example", "", pass}, {"tcp://nobody.example:5432", "", pass},
		{"https://ext.example:444", "", ""}, {"tcp://240.240.9.9:80", "", ""}, {"https://[2001:2::99]", "", ""},
	} {
		for want, s := range map[*string]*registry.Snapshot{&tt.closed: closed, &tt.open: open} {
			v := policy.Decide(s, from, parse(t, tt.url))
			if got := map[bool]string{true: v.Cluster}[v.Allowed]; got != *want {
				t.Errorf("%s, allow any %t: goes to %q, want %q (%s)", tt.url, s == open, got, *want, v.Reason)
			}
		}
	}
	// an address registered as TLS says so to what is not
	if v := policy.Decide(open, from, parse(t, "tcp://203.0.113.7:443")); v.Allowed || !strings.Contains(v.Reason, "registered as TLS") {
		t.Errorf("not TLS: %+v", v)
	}
	if v := policy.Decide(open, from, parse(t, "https://ext")); v.Allowed || !strings.Contains(v.Reason, "another name of ext.example") {
		t.Errorf("TLS for another name: %+v", v)
	}
	if v := policy.Decide(open, policy.Workload{Namespace: "other"}, parse(t, "http://web")); v.Path != policy.PathPassthrough {
		t.Errorf("another namespace's short name: %+v", v)
	}
}

// TestDynamicDNS: plain requests for names go where those resolve, everything else as in ALLOW_ANY.
func TestDynamicDNS(t *testing.T) {
	const dynamic, pass = "AllowAnyDynamicDNSCluster", "PassthroughCluster"
	s := readFor(t, true, true, shop, `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: other}
spec: {outboundTrafficPolicy: {mode: ALLOW_ANY}, egress: [{hosts: ["*/*"]}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: zero, namespace: third}
spec: {outboundTrafficPolicy: {}, egress: [{hosts: ["*/*"]}]}
`)
	for url, want := range map[string]string{
		"http://nobody.example": dynamic, "http://nobody.example:8080": dynamic, "http://ext.example:8080": dynamic,
		"https://nobody.example": pass, "tcp://nobody.example:80": pass, "http://203.0.113.200": pass, "http://[2001:db8::1]": pass,
		"http://localhost": pass, "http://a.localhost": pass, "http://short": pass, "http://nobody.example:3306": pass,
	} {
		if v := policy.Decide(s, policy.Workload{Namespace: "shop"}, parse(t, url)); v.Cluster != want || !v.Allowed {
			t.Errorf("%s: %q, %t, want %q (%s)", url, v.Cluster, v.Allowed, want, v.Reason)
		}
	}
	if v := policy.Decide(s, policy.Workload{Namespace: "other"}, parse(t, "http://nobody.example")); v.Cluster != pass {
		t.Errorf("where a Sidecar says ALLOW_ANY: %+v", v)
	}
	if v := policy.Decide(s, policy.Workload{Namespace: "third"}, parse(t, "http://nobody.example")); v.Allowed {
		t.Errorf("where a Sidecar says {}: %+v", v)
	}
}

func readFor(t *testing.T, allowAny, dynamic bool, texts ...string) *registry.Snapshot {
	t.Helper()
	cfg := mesh.Default()
	cfg.OutboundAllowAny, cfg.OutboundDynamicDNS = allowAny, dynamic
	r := registry.New(&cfg)
	for _, text := range texts {
		result := decode.File("objects.yaml", []byte(text))
		for _, f := range result.Findings {
			t.Errorf("%s\n%s", f, text)
		}
		var changes []config.Change
		for i := range result.Objects {
			changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
		}
		r.Apply(changes)
	}
	return r.Snapshot()
}
