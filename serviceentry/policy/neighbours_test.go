package policy_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// shared is an ingress gateway whose Gateway has all hosts, as platforms have it, one of the Gateway API's, and what namespace a leads from both.
const shared = `
apiVersion: v1
kind: Service
metadata: {name: in, namespace: istio-ingress}
spec: {clusterIP: 10.0.0.9, selector: {istio: in}, ports: [{name: http, port: 80}, {name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: kgw-sallyport, namespace: infra}
spec: {clusterIP: 10.0.0.8, selector: {gateway.networking.k8s.io/gateway-name: kgw}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: a}
spec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: evil, namespace: b}
spec: {clusterIP: 10.0.0.2, selector: {app: evil}, ports: [{name: http, port: 80}, {name: tls, port: 443}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: int, namespace: istio-system}
spec: {hosts: [int.corp.example], location: MESH_INTERNAL, exportTo: [a, infra], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 203.0.113.77}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shared, namespace: istio-ingress, creationTimestamp: "2020-01-01T00:00:00Z"}
spec:
  selector: {istio: in}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 443, name: https, protocol: HTTPS}, tls: {mode: SIMPLE, credentialName: cert}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: pay, namespace: a, creationTimestamp: "2021-01-01T00:00:00Z"}
spec: {hosts: [pay.example.com, "*.w.example.com"], gateways: [istio-ingress/shared], http: [{route: [{destination: {host: web.a.svc.cluster.local}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: rest, namespace: istio-ingress, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {hosts: ["*.b.example.com", all.example.com], gateways: [shared], http: [{directResponse: {status: 410}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: kgw, namespace: infra, creationTimestamp: "2020-01-01T00:00:00Z"}
spec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: a}}}}}, {name: open, port: 80, hostname: "*.open.example.com", protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: a, labels: {kubernetes.io/metadata.name: a}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: a, creationTimestamp: "2021-01-01T00:00:00Z"}
spec: {parentRefs: [{name: kgw, namespace: infra}], hostnames: [shop.example.com], rules: [{backendRefs: [{name: web, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: int, namespace: a, creationTimestamp: "2021-01-01T00:00:00Z"}
spec: {parentRefs: [{name: kgw, namespace: infra}], hostnames: [int.open.example.com], rules: [{matches: [{path: {value: /a}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: int.corp.example, port: 80}]}]}
`

// TestNeighboursAtSharedGateways: what a namespace leads from gateways that many share goes where it went, whatever another writes of the same names; and who has a name
// that nobody else leads has it still.
func TestNeighboursAtSharedGateways(t *testing.T) {
	gateway := func(created, host string) string {
		return `
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: x, namespace: b, creationTimestamp: "` + created + `-01-01T00:00:00Z"}
spec:
  selector: {istio: in}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["` + host + `"]}
  - {port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}, hosts: ["` + host + `"]}
`
	}
	routes := func(created, host, bound string) string {
		return `
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: x, namespace: b, creationTimestamp: "` + created + `-01-01T00:00:00Z", annotations: {internal.istio.io/route-semantics: gateway}}
spec:
  hosts: ["` + host + `"]
  gateways: ["` + bound + `"]
  http: [{route: [{destination: {host: evil.b.svc.cluster.local, port: {number: 80}}}]}]
  tls: [{match: [{sniHosts: ["` + host + `"]}], route: [{destination: {host: evil.b.svc.cluster.local, port: {number: 443}}}]}]
`
	}
	leads := func(created string) string {
		return `
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: h, namespace: b, creationTimestamp: "` + created + `-01-01T00:00:00Z"}
spec: {parentRefs: [{name: kgw, namespace: infra}], hostnames: [int.open.example.com], rules: [{matches: [{path: {value: /b}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: int.corp.example, port: 80}]}]}
`
	}
	const (
		web, evil, evilTLS, inside = "outbound|80||web.a.svc.cluster.local", "outbound|80||evil.b.svc.cluster.local", "outbound|443||evil.b.svc.cluster.local", "outbound|80||int.corp.example"
		in, kgw                    = "istio-ingress/in", "infra/kgw"
	)
	for what, c := range map[string]struct {
		written, gateway, url string
		cluster, reason       string // "" for none
	}{
		"nothing":                   {"", in, "http://pay.example.com/", web, ""},
		"its name, of a listener's": {routes("2019", "shop.example.com", "infra/kgw/http"), kgw, "http://shop.example.com/", web, ""},
		"another name of it":        {routes("2019", "b.example.com", "infra/kgw/http"), kgw, "http://b.example.com/", "", ""},
		"a younger Gateway":         {gateway("2025", "pay.example.com") + routes("2019", "pay.example.com", "x"), in, "http://pay.example.com/", web, ""},
		"by TLS":                    {gateway("2025", "pay.example.com") + routes("2025", "pay.example.com", "x"), in, "https://pay.example.com/", "", "istio-ingress/cert"},
		"by a pattern":              {gateway("2025", "*.example.com") + routes("2025", "*.example.com", "x"), in, "https://pay.example.com/", "", "istio-ingress/cert"},
		"by a name below one":       {gateway("2025", "b.w.example.com") + routes("2025", "b.w.example.com", "x"), in, "http://b.w.example.com/", web, ""},
		"the pods' namespace's":     {gateway("2019", "all.example.com") + routes("2019", "all.example.com", "x"), in, "http://all.example.com/", "", ""},
		"an older Gateway":          {gateway("2019", "pay.example.com") + routes("2025", "pay.example.com", "x"), in, "http://pay.example.com/", evil, ""},
		"what nobody leads":         {gateway("2025", "b.example.com") + routes("2025", "b.example.com", "x"), in, "http://b.example.com/", evil, ""},
		"a pattern of nobody's":     {gateway("2025", "*.c.example.com") + routes("2025", "*.c.example.com", "x"), in, "https://x.c.example.com/", evilTLS, ""},
		"below the platform's":      {gateway("2025", "x.b.example.com") + routes("2025", "x.b.example.com", "x"), in, "http://x.b.example.com/", evil, ""},
		"older, a host not its own": {leads("2019"), kgw, "http://int.open.example.com/a", inside, ""},
		"younger, the same":         {leads("2025"), kgw, "http://int.open.example.com/a", inside, ""},
		"led there, older":          {leads("2019"), kgw, "http://int.open.example.com/b", "", "is no host that namespaces b and infra both see"},
		"led there, younger":        {leads("2025"), kgw, "http://int.open.example.com/b", "", "is no host that namespaces b and infra both see"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, texts := range [][]string{{shared + c.written}, {shared, c.written}, {c.written, shared}} { // at once, after and before
				e := answer(t, read(t, true, texts...), policy.Question{Gateway: c.gateway, URL: c.url})
				if e.Cluster != c.cluster || !strings.Contains(e.Reason, c.reason) {
					t.Errorf("%s goes to %q, want %q: %s", c.url, e.Cluster, c.cluster, e.Reason)
				}
			}
		})
	}
}
