package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// saidAlike are objects of which something is said that follows from others: of rules by what pods take and what other rules say, of policies by whose tokens are verified, and by whom
// others have asked, of routes by whose tokens are verified.
const saidAlike = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, clusterIP: 10.96.0.9, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, clusterIP: 10.96.0.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: web, containers: [{name: c, image: i}]}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: all, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: shop}
spec: {hosts: [api.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP, targetPort: 443}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: tls, namespace: shop}
spec: {hosts: [tls.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: tls, namespace: other}
spec: {hosts: [api.example.com], http: [{route: [{destination: {host: tls.test, port: {number: 443}}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: requests, namespace: shop}
spec: {host: tls.test, trafficPolicy: {portLevelSettings: [{port: {number: 443}, tls: {mode: SIMPLE}}]}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: wide, namespace: istio-system}
spec: {host: "*.example.com", trafficPolicy: {tls: {mode: SIMPLE}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: hides, namespace: shop}
spec: {host: api.example.com, trafficPolicy: {loadBalancer: {simple: RANDOM}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: plain, namespace: other}
spec: {host: web.shop.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: exit, namespace: other}
spec: {host: istio-egressgateway.istio-system.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, jwtRules: [{issuer: a, jwksUri: "http://169.254.169.254/keys"}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: verified, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, rules: [{from: [{source: {requestPrincipals: ["a/*"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: strange, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, rules: [{from: [{source: {requestPrincipals: ["b/*"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: unverified, namespace: other}
spec: {rules: [{when: [{key: "request.auth.claims[group]", values: [admin]}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: first, namespace: shop}
spec: {action: CUSTOM, provider: {name: one}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: second, namespace: shop}
spec: {action: CUSTOM, provider: {name: two}, rules: [{}]}
---
apiVersion: v1
kind: Pod
metadata: {name: front, namespace: edge, labels: {istio: front, app: front}}
spec: {serviceAccountName: front, containers: [{name: c, image: i}]}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: front, namespace: edge}
spec: {selector: {matchLabels: {app: front}}, jwtRules: [{issuer: a, jwksUri: "https://a.test/keys"}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: front, namespace: edge}
spec: {selector: {istio: front}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*/*"]}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: back, namespace: edge}
spec: {selector: {istio: back, app: back}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*/*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: claims, namespace: edge}
spec: {hosts: [claims.test], gateways: [front], http: [{match: [{headers: {"@request.auth.claims.a": {exact: b}}}], directResponse: {status: 200}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: no-claims, namespace: edge}
spec: {hosts: [none.test], gateways: [back], http: [{match: [{withoutHeaders: {"@request.auth.claims.a": {exact: b}}}], directResponse: {status: 200}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: led-away, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [led.test], exportTo: ["."], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: leads-away, namespace: shop}
spec: {hosts: [led.test], http: [{redirect: {scheme: https}}]}
---
apiVersion: v1
kind: Service
metadata: {name: sticky, namespace: shop}
spec: {selector: {app: sticky}, clusterIP: 10.96.0.3, sessionAffinity: ClientIP, ports: [{name: http, port: 80}, {name: tcp, port: 5432}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: sticks, namespace: shop}
spec: {host: sticky, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}
---
apiVersion: v1
kind: Service
metadata: {name: another-name, namespace: shop}
spec: {type: ExternalName, externalName: api.example.com}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: of-another-name, namespace: shop}
spec: {host: another-name, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: unfollowed, namespace: other}
spec: {host: api.example.com, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: edge}
spec: {selector: {istio: front}, clusterIP: 10.96.0.2, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: dead-end, namespace: shop}
spec: {hosts: [outside.test], gateways: [edge/front], exportTo: ["."], http: [{match: [{port: 81}], route: [{destination: {host: tls.test, port: {number: 443}}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: dead-end-of-pods, namespace: shop}
spec: {hosts: [web], http: [{route: [{destination: {host: tls.test, port: {number: 443}}}], rewrite: {authority: other.test}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: dead-end-outside, namespace: shop}
spec: {hosts: [in.test], gateways: [edge/front], http: [{route: [{destination: {host: tls.test, port: {number: 443}}}]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: left-out, namespace: other, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {hosts: [in.test], gateways: [edge/front], http: [{route: [{destination: {host: web.shop.svc.cluster.local}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: unread, namespace: shop}
spec: {selector: {matchLabels: {app: sticky}}, action: ALLOW, rules: [{to: [{operation: {methods: [GET], ports: ["5432"]}}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: read, namespace: edge}
spec: {selector: {app: read}, clusterIP: 10.96.0.4, ports: [{name: tcp, port: 9000}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: reads, namespace: edge}
spec: {workloadSelector: {labels: {app: read}}, ingress: [{port: {number: 9000, name: http, protocol: HTTP}, defaultEndpoint: "127.0.0.1:9000"}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: read, namespace: edge}
spec: {selector: {matchLabels: {app: read}}, action: ALLOW, rules: [{to: [{operation: {methods: [GET], ports: ["9000"]}}]}]}
`

// said is how many warnings there are of objects that are among others.
var said = map[string]int{
	"hides": 1, "plain": 1, "exit": 1, "strange": 1, "unverified": 1, "web": 1, "first": 1, "second": 2, "no-claims": 1,
	"sticks": 1, "of-another-name": 1, "unfollowed": 1,
	"delegating": 1, "too-large": 1,
	"dead-end": 2, "dead-end-of-pods": 2, "dead-end-outside": 1, "left-out": 1, "unread": 2, "read": 1,
	"claims": 0, "requests": 0, "wide": 0, "verified": 0,
}

// tooMuchDelegated is a VirtualService with a delegate of another namespace that has more matches than count.
func tooMuchDelegated() string {
	matches := func(n int, format string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(list, ", ")
	}
	return "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: delegating, namespace: shop}\nspec: {hosts: [api.example.com], http: [{match: [" + matches(200, "{uri: {prefix: /}, method: {exact: M%d}}") + "], delegate: {name: too-large, namespace: other}}]}\n" +
		"---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: too-large, namespace: other}\nspec: {http: [{match: [" + matches(100, "{uri: {prefix: /%d}}") + "], route: [{destination: {host: api.example.com}}]}]}\n"
}

// TestSaidAlike: the webhook, which looks at a part of what there is, and statuses say of an object what lint says of it.
func TestSaidAlike(t *testing.T) {
	cfg := mesh.Default()
	cfg.Authorizers = []mesh.Authorizer{{Name: "one", Host: "web.shop.svc.cluster.local", Port: 80}, {Name: "two", Host: "nowhere.test", Port: 80}}
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	changes := written(t, saidAlike+tooMuchDelegated())
	p.known.apply(changes)
	s, _ := p.registry.Apply(changes)
	p.snapshot.Store(s)
	p.policies.by = p.known.judgePolicies(cfg, time.Now())
	var all []config.Object
	for _, c := range changes {
		all = append(all, *c.Object)
	}
	lint := admission.Check(all, cfg)
	found := map[string]int{}
	for i := range all {
		o := &all[i]
		want := slices.DeleteFunc(slices.Clone(lint), func(f admission.Finding) bool { return f.Key != o.Key })
		if got := p.known.check(*o, cfg); len(want)+len(got) > 0 {
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: the webhook (-lint +webhook):\n%s", o.Key, d)
			}
		}
		if slices.Contains(admission.Judged, o.Kind) {
			if got := p.judgedDetails(s, o).Warnings; len(want)+len(got) > 0 {
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s: the status (-lint +status):\n%s", o.Key, d)
				}
			}
			found[o.Name] += len(want)
		}
	}
	for name, want := range said {
		if found[name] != want {
			t.Errorf("%s: %d findings, want %d: %v", name, found[name], want, lint)
		}
	}
}
