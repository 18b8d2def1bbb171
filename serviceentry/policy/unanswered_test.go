package policy_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestNobodyThere: what is let through and finds no endpoint stays allowed, and it is said what becomes of it; where the client chooses itself, or a name does, nothing is said.
func TestNobodyThere(t *testing.T) {
	s := read(t, true, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, version: v1}}
status: {podIP: 10.0.0.1, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: web.shop.svc.cluster.local, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop.svc.cluster.local]
  http:
  - {match: [{uri: {prefix: /next}}], route: [{destination: {host: web.shop.svc.cluster.local, subset: v2}}]}
  - {match: [{uri: {prefix: /away}}], route: [{destination: {host: empty.shop.svc.cluster.local}}]}
  - {route: [{destination: {host: web.shop.svc.cluster.local, subset: v1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty, namespace: shop}
spec: {selector: {app: empty}, clusterIP: 10.96.0.2, ports: [{name: http, port: 80}, {name: tcp, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless, namespace: shop}
spec: {selector: {app: nobody}, clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inside, namespace: shop}
spec: {hosts: [inside.test], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {labels: {app: machine}}, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: direct, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [direct.test], location: MESH_EXTERNAL, resolution: STATIC, workloadSelector: {labels: {app: machine}}, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: named, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [named.test, parted.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: parted, namespace: shop}
spec: {host: parted.test, subsets: [{name: eu, labels: {region: eu}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: parted, namespace: shop}
spec: {hosts: [parted.test], http: [{route: [{destination: {host: parted.test, subset: eu}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: leaving, namespace: shop}
spec: {hosts: [leaving.test], location: MESH_EXTERNAL, resolution: STATIC, workloadSelector: {labels: {app: machine}}, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: renamed, namespace: shop}
spec: {clusterIP: 10.96.0.3, ports: [{name: http, port: 80}, {name: http-two, port: 81}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: renamed, namespace: shop, labels: {kubernetes.io/service-name: renamed}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.3]}]
ports: [{name: web, port: 8080}, {name: http-two, port: 8081}]
---
apiVersion: v1
kind: Service
metadata: {name: anyport, namespace: shop}
spec: {clusterIP: 10.96.0.4, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: anyport, namespace: shop, labels: {kubernetes.io/service-name: anyport}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.4]}]
---
apiVersion: v1
kind: Service
metadata: {name: byname, namespace: shop}
spec: {selector: {app: byname}, clusterIP: 10.96.0.5, ports: [{name: http, port: 80, targetPort: web}, {name: http-two, port: 81, targetPort: admin}]}
---
apiVersion: v1
kind: Pod
metadata: {name: byname, namespace: shop, labels: {app: byname}}
spec: {containers: [{name: a, image: a, ports: [{name: admin, containerPort: 9000}]}]}
status: {podIP: 10.0.0.5, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec: {hosts: [far.test], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{network: n7}], ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: farther, namespace: shop}
spec: {hosts: [farther.test], location: MESH_EXTERNAL, resolution: STATIC, endpoints: [{network: n7}], ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, clusterIP: 10.96.0.9, ports: [{name: tls, port: 443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: egress, namespace: istio-system, labels: {istio: egressgateway}}
status: {podIP: 10.0.0.9, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: shop}
spec: {selector: {istio: ingress}, servers: [{hosts: ["*"], port: {number: 80, name: http, protocol: HTTP}}]}
---
apiVersion: v1
kind: Service
metadata: {name: in, namespace: shop}
spec: {selector: {istio: ingress}, clusterIP: 10.96.0.8, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: public, namespace: shop}
spec: {hosts: [public.test], gateways: [public], http: [{match: [{uri: {prefix: /empty}}], route: [{destination: {host: empty.shop.svc.cluster.local}}]}, {route: [{destination: {host: web.shop.svc.cluster.local}}]}]}
`)
	const fails, closes = "until one is, requests are answered with 503", "until one is, connections are closed"
	for _, c := range []struct{ url, gateway, of, then string }{
		{"http://web.shop/", "", "", ""},
		{"http://web.shop/next", "", "the subset v2 of web.shop.svc.cluster.local", fails},
		{"http://web.shop/away", "", "empty.shop.svc.cluster.local", fails},
		{"http://empty.shop/", "", "empty.shop.svc.cluster.local", fails},
		{"tcp://empty.shop:5432", "", "empty.shop.svc.cluster.local", closes},
		{"http://headless.shop/", "", "", ""},
		{"http://inside.test/", "", "inside.test", fails},
		{"http://direct.test/", "", "direct.test", fails},
		{"https://direct.test/", "", "direct.test", closes},
		{"http://named.test/", "", "", ""},
		{"http://parted.test/", "", "the subset eu of parted.test", fails},
		{"http://leaving.test/", "", "leaving.test", fails},
		{"http://renamed.shop/", "", "renamed.shop.svc.cluster.local", fails},
		{"http://renamed.shop:81/", "", "", ""},
		{"http://anyport.shop/", "", "", ""},
		{"http://byname.shop/", "", "byname.shop.svc.cluster.local", fails},
		{"http://byname.shop:81/", "", "", ""},
		{"http://far.test/", "", "far.test", fails},
		{"http://farther.test/", "", "farther.test", fails},
		{"http://public.test/", "shop/public", "", ""},
		{"http://public.test/empty", "shop/public", "it", fails},
	} {
		q := policy.Question{From: "shop/app", URL: c.url, Gateway: c.gateway}
		if c.gateway != "" {
			q.From = ""
		}
		e := answer(t, s, q)
		said := strings.Contains(e.Reason, "no endpoint of "+c.of+" is known") && strings.Contains(e.Reason, c.then)
		if e.Verdict != "allow" || e.Unanswered != (c.then != "") || said != (c.then != "") {
			t.Errorf("%s: %s, unanswered: %v: %s", c.url, e.Verdict, e.Unanswered, e.Reason)
		}
	}
}

// TestOnOnesOwnNode: of a Service with internalTrafficPolicy: Local it is said whose pods are asked, and that nobody is there where no pod is on any node.
func TestOnOnesOwnNode(t *testing.T) {
	const service = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.96.0.1, internalTrafficPolicy: Local, ports: [{name: http, port: 80}, {name: tcp, port: 5432}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
status: {podIP: 10.0.0.1, phase: Running}
`
	for _, c := range []struct {
		text, url, says string
		unanswered      bool
	}{
		{service, "http://web.shop/", "no endpoint of web.shop.svc.cluster.local is known", true},
		{strings.Replace(service, "status:", "spec: {nodeName: n1}\nstatus:", 1), "http://web.shop/", "only its pods on the node of who connects are asked: where there is none, requests are answered with 503", false},
		{strings.Replace(service, "status:", "spec: {nodeName: n1}\nstatus:", 1), "tcp://web.shop:5432", "where there is none, connections are closed", false},
		{strings.Replace(service, "internalTrafficPolicy: Local, ", "", 1), "http://web.shop/", "", false},
	} {
		e := answer(t, read(t, true, c.text), policy.Question{From: "shop/app", URL: c.url})
		if e.Verdict != "allow" || e.Unanswered != c.unanswered || !strings.Contains(e.Reason, c.says) || c.says == "" && strings.Contains(e.Reason, "node") {
			t.Errorf("%s: %+v, want %q", c.url, e, c.says)
		}
	}
}

// TestMissingBackend: of a mesh's route of the Gateway API it is said in its own words that a backend is not there.
func TestMissingBackend(t *testing.T) {
	s := read(t, true, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{group: "", kind: Service, name: web}]
  rules:
  - {matches: [{path: {value: /gone}}], backendRefs: [{name: gone, port: 80}]}
  - {matches: [{path: {value: /hidden}}], backendRefs: [{name: hidden, namespace: other, port: 80}]}
  - {matches: [{path: {value: /host}}], backendRefs: [{group: networking.istio.io, kind: Hostname, name: gone.test, port: 80}]}
`)
	for path, says := range map[string]string{"gone": "gone.shop.svc.cluster.local is no Service", "hidden": "is no Service, or one that no ReferenceGrant lets be named; see the route's status", "host": "write a ServiceEntry for it"} {
		e := answer(t, s, policy.Question{From: "shop/app", URL: "http://web.shop/" + path})
		if e.Verdict != "deny" || e.DecidedBy.Kind != "HTTPRoute" || !strings.Contains(e.Reason, says) || path != "host" && strings.Contains(e.Reason, "ServiceEntry") {
			t.Errorf("%s: %+v, want %q", path, e, says)
		}
	}
}

// TestSubsetOfHeadless: where a route names a subset of a headless Service it is said that the client chose the pod.
func TestSubsetOfHeadless(t *testing.T) {
	s := read(t, true, `
apiVersion: v1
kind: Service
metadata: {name: hl, namespace: shop}
spec: {selector: {app: web}, clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: hl, namespace: shop}
spec: {host: hl, subsets: [{name: v1, labels: {v: "1"}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: hl, namespace: shop}
spec: {hosts: [hl], http: [{match: [{uri: {prefix: /s}}], route: [{destination: {host: hl, subset: v1}}]}, {route: [{destination: {host: hl}}]}]}
`)
	for path, says := range map[string]bool{"s": true, "": false} {
		e := answer(t, s, policy.Question{From: "shop/app", URL: "http://hl/" + path})
		if e.Verdict != "allow" || strings.Contains(e.Reason, "is headless, so that the client chose a pod itself: subset v1 says nothing") != says {
			t.Errorf("%q: %+v", path, e)
		}
	}
}

// TestLedWhereOthersComeIn: a pair that leads to what others come in by ends nothing there, and it is said that nothing leaves by it.
func TestLedWhereOthersComeIn(t *testing.T) {
	const pair = `
apiVersion: v1
kind: Service
metadata: {name: gw, namespace: edge}
spec: {selector: {app: gw}, clusterIP: 10.96.0.40, ports: [{name: tls, port: 443, targetPort: 8443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gw-1, namespace: edge, labels: {app: gw}}
status: {podIP: 10.244.0.40, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: away, namespace: team}
spec: {hosts: [away.test], resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: team}
spec: {selector: {app: gw}, servers: [{hosts: [away.test], port: {number: 443, name: t, protocol: TLS}, tls: {mode: PASSTHROUGH}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: team}
spec:
  hosts: [away.test]
  gateways: [mesh, g]
  tls:
  - {match: [{gateways: [mesh], port: 443, sniHosts: [away.test]}], route: [{destination: {host: gw.edge.svc.cluster.local, port: {number: 443}}}]}
  - {match: [{gateways: [g], port: 443, sniHosts: [away.test]}], route: [{destination: {host: away.test, port: {number: 443}}}]}
`
	const others = `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: g, namespace: shop}
spec: {selector: {app: gw}, servers: [{hosts: [shop.test], port: {number: 80, name: h, protocol: HTTP}}]}
`
	for objects, ends := range map[string]bool{pair: false, pair + others: true} {
		s := read(t, true, objects)
		v := policy.Decide(s, policy.Workload{Namespace: "team", Name: "a"}, policy.Destination{Scheme: policy.TLS, Host: "away.test", Port: 443})
		if !v.Allowed || v.Gateway.String() != "edge/gw" || v.Unanswered != ends || strings.Contains(v.Reason, "others come in by the pods of edge/gw") != ends {
			t.Errorf("where others come in (%v): %+v", ends, v)
		}
	}
}
