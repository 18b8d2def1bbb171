package policy_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const frontedObjects = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint}}
---
apiVersion: v1
kind: Namespace
metadata: {name: calm, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: shop}
spec: {clusterIP: 10.96.0.15, selector: {gateway.networking.k8s.io/gateway-name: waypoint}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: waypoint-1, namespace: shop, labels: {kubernetes.io/service-name: waypoint}}
addressType: IPv4
ports: [{name: mesh, port: 15008}]
endpoints: [{addresses: [10.1.0.15], targetRef: {kind: Pod, namespace: shop, name: waypoint-1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: waypoint-1, namespace: shop, labels: {gateway.networking.k8s.io/gateway-name: waypoint, istio.io/dataplane-mode: none}}
spec: {serviceAccountName: waypoint}
status: {podIP: 10.1.0.15}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80}, {name: tcp-db, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: tcp-db, port: 5432}]
endpoints:
- {addresses: [10.1.0.1], targetRef: {kind: Pod, namespace: shop, name: web-1}}
- {addresses: [10.1.0.2], targetRef: {kind: Pod, namespace: shop, name: web-2}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {serviceAccountName: web}
status: {podIP: 10.1.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: shop, labels: {app: web, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: web}
status: {podIP: 10.1.0.2}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: by-waypoint, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/waypoint]}}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: calm}
spec: {clusterIP: 10.96.0.4, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: front, namespace: calm}
spec: {hosts: [front.calm.svc.cluster.local], http: [{match: [{uri: {prefix: /lost}}], route: [{destination: {host: lost.shop.svc.cluster.local}}]}, {rewrite: {uri: /old}, match: [{uri: {prefix: /rewritten}}], route: [{destination: {host: web.shop.svc.cluster.local}}]}, {route: [{destination: {host: web.shop.svc.cluster.local}}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: lost, namespace: shop, labels: {istio.io/use-waypoint: gone}}
spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: far, namespace: calm, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop}}
spec: {clusterIP: 10.96.0.3, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec: {hosts: [web.shop.svc.cluster.local], http: [{match: [{uri: {prefix: /old}}], redirect: {uri: /new}}, {match: [{uri: {prefix: /broken}}], fault: {abort: {httpStatus: 503, percentage: {value: 100}}}, route: [{destination: {host: web.shop.svc.cluster.local}}]}, {route: [{destination: {host: web.shop.svc.cluster.local}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: leaving, namespace: shop}
spec: {targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: out}], action: DENY, rules: [{to: [{operation: {ports: ["80"], paths: [/secret]}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: shop}
spec: {hosts: [out.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: v1
kind: Service
metadata: {name: around, namespace: calm}
spec: {clusterIP: 10.96.0.5, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: around, namespace: calm}
spec: {hosts: [around.calm.svc.cluster.local], http: [{route: [{destination: {host: out.test}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: reading, namespace: shop}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}], action: DENY, rules: [{to: [{operation: {ports: ["80"], methods: [DELETE]}}]}]}
`

// TestExplainWaypoint: who has no sidecar is told by which waypoint it goes, which object decides there and at the pods behind, which see the waypoint,
// and what is missing. Who has one is told what the pods say of it.
func TestExplainWaypoint(t *testing.T) {
	s := read(t, true, frontedObjects)
	for _, c := range []struct{ from, method, url, verdict, waypoint, by, reason string }{
		{"calm/app", "GET", "http://web.shop/", "allow", "shop/waypoint", "Service shop/web", "by the waypoint shop/waypoint"},
		{"calm/app", "DELETE", "http://web.shop/", "deny", "shop/waypoint", "AuthorizationPolicy shop/reading", "denied by"},
		{"calm/app", "GET", "http://web.shop/old", "deny", "shop/waypoint", "VirtualService shop/web", "at the waypoint shop/waypoint it is answered"},
		{"calm/app", "GET", "http://web.shop/broken", "deny", "shop/waypoint", "VirtualService shop/web", "at the waypoint shop/waypoint all requests are aborted"},
		{"calm/app", "", "tcp://web.shop.svc.cluster.local:5432", "allow", "shop/waypoint", "Service shop/web", "by the waypoint"},
		{"other/app", "DELETE", "http://web.shop.svc.cluster.local/", "deny", "", "AuthorizationPolicy shop/by-waypoint", "whose pods refuse it"}, // with a sidecar, around the waypoint
		{"calm/app", "GET", "http://lost.shop.svc.cluster.local/", "deny", "shop/gone", "Service shop/lost", "there is no such waypoint"},
		{"calm/app", "GET", "http://far.calm.svc.cluster.local/", "deny", "shop/waypoint", "Service calm/far", "allowedRoutes"},
		{"calm/app", "GET", "http://front.calm.svc.cluster.local/", "allow", "shop/waypoint", "Service shop/web", "led there by VirtualService calm/front"},
		{"calm/app", "DELETE", "http://front.calm.svc.cluster.local/", "deny", "shop/waypoint", "AuthorizationPolicy shop/reading", "denied by"},
		{"calm/app", "GET", "http://front.calm.svc.cluster.local/rewritten", "deny", "shop/waypoint", "VirtualService shop/web", "at the waypoint shop/waypoint it is answered"},
		{"calm/app", "GET", "http://front.calm.svc.cluster.local/lost", "deny", "shop/gone", "VirtualService calm/front", "there is no such waypoint"},
		{"calm/app", "GET", "http://out.test/", "allow", "shop/waypoint", "ServiceEntry shop/out", "which the egress gateway has for its client: registered"},
		{"calm/app", "GET", "http://out.test/secret", "deny", "shop/waypoint", "AuthorizationPolicy shop/leaving", "denied by"},
		{"calm/app", "", "tls://out.test:443", "allow", "shop/waypoint", "ServiceEntry shop/out", "registered"},
		{"other/app", "GET", "http://out.test/secret", "allow", "", "ServiceEntry shop/out", "registered"},
		{"calm/app", "GET", "http://around.calm.svc.cluster.local/", "deny", "shop/waypoint", "VirtualService calm/around", "has a waypoint"},
	} {
		e := explained(t, s, policy.Question{From: c.from, Method: c.method, URL: c.url})
		by := e.DecidedBy.Kind + " " + e.DecidedBy.Namespace + "/" + e.DecidedBy.Name
		if e.Verdict != c.verdict || e.Waypoint != c.waypoint || by != c.by || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s %s %s: %s by %q, %s, %s", c.from, c.method, c.url, e.Verdict, e.Waypoint, by, e.Reason)
		}
		for _, step := range e.Authorization {
			if step.Level != "waypoint" {
				t.Errorf("%s %s %s: policies are asked at level %s", c.from, c.method, c.url, step.Level)
			}
		}
	}
}

// TestExplainOutsideByWaypoint: EgressPolicies of who asks count, and those of the waypoint's own account.
func TestExplainOutsideByWaypoint(t *testing.T) {
	for _, c := range []struct{ closed, by, reason string }{
		{"calm", "EgressPolicy calm/closed", "denied by"},
		{"shop", "EgressPolicy shop/closed", "which the egress gateway has for its client: denied by"},
	} {
		text := frontedObjects + "---\napiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: closed, namespace: " + c.closed + "}\nspec: {rules: [{name: out, action: Deny, hosts: [out.test]}]}\n"
		for _, url := range []string{"http://out.test/", "tls://out.test:443"} {
			e := explained(t, read(t, true, text), policy.Question{From: "calm/app", URL: url})
			by := e.DecidedBy.Kind + " " + e.DecidedBy.Namespace + "/" + e.DecidedBy.Name
			if e.Verdict != "deny" || e.Waypoint != "shop/waypoint" || by != c.by || !strings.Contains(e.Reason, c.reason) {
				t.Errorf("%s: %s by %q, %s, %s", url, e.Verdict, e.Waypoint, by, e.Reason)
			}
		}
	}
}

// TestExplainOutsideAsAskedAtWaypoint: a policy that closes paths, or ports, is not got around by a route at the waypoint, where the client is asked about.
func TestExplainOutsideAsAskedAtWaypoint(t *testing.T) {
	const objects = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: shop}
spec: {hosts: [out.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 8080, name: http-more, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: out, namespace: shop}
spec: {hosts: [out.test], http: [{MOREroute: [{destination: {host: out.testPORT}}]}]}
`
	for _, c := range []struct{ more, port, url, verdict, reason string }{
		{"", "", "http://out.test/", "allow", "led there by VirtualService shop/out"},
		{"rewrite: {authority: out.test}, ", "", "http://out.test/", "allow", "led there by VirtualService shop/out"},
		{"timeout: 1s, ", ", port: {number: 8080}", "http://out.test:8080/", "allow", "led there by VirtualService shop/out"},
		{"", ", port: {number: 8080}", "http://out.test/", "deny", "port 8080 of out.test"},
		{"rewrite: {uri: /admin}, ", "", "http://out.test/", "deny", "a rewrite of the path"},
		{"rewrite: {uriRegexRewrite: {match: /a, rewrite: /b}}, ", "", "http://out.test/", "deny", "a rewrite of the path"},
		{"rewrite: {authority: else.test}, ", "", "http://out.test/", "deny", "a rewrite of the authority"},
	} {
		e := explained(t, read(t, true, frontedObjects+strings.NewReplacer("MORE", c.more, "PORT", c.port).Replace(objects)), policy.Question{From: "calm/app", URL: c.url})
		if e.Verdict != c.verdict || e.Waypoint != "shop/waypoint" || !strings.Contains(e.Reason, c.reason) || c.verdict == "deny" && e.DecidedBy.Name != "out" {
			t.Errorf("%+v: %s at %q, %+v, %s", c, e.Verdict, e.Waypoint, e.DecidedBy, e.Reason)
		}
	}
}

// TestExplainOtherRegistrationAtWaypoint: a waypoint that sees another registration of a host than the client stands before the client's all the same, if that asks
// for it; entries that count as one are one there, too.
func TestExplainOtherRegistrationAtWaypoint(t *testing.T) {
	const shared = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {istio.io/dataplane-mode: ambient}}\n"
	const entry = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: NAME, namespace: TEAM, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop}}
spec: {hosts: ["HOST"], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: PORT, name: http, protocol: HTTP}]}
`
	of := func(ns, name, host, port string) string {
		return strings.NewReplacer("NAME", name, "TEAM", ns, "HOST", host, "PORT", port).Replace(entry)
	}
	s := read(t, true, strings.Replace(frontedObjects, "protocol: HBONE}", "protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}", 1)+shared+
		of("team", "out", "out.test", "80")+of("team", "sub", "a.wide.test", "80")+of("shop", "wide", "*.wide.test", "80")+of("team", "one", "one.test", "80")+of("team", "two", "one.test", "8080"))
	for _, c := range []struct{ from, url, verdict, by, reason string }{
		{"calm/app", "http://out.test/", "allow", "ServiceEntry shop/out", "which the egress gateway has"},
		{"team/app", "http://out.test/", "allow", "ServiceEntry team/out", "which the egress gateway has"},
		{"team/app", "http://a.wide.test/", "allow", "ServiceEntry team/sub", "which the egress gateway has"},
		{"team/app", "http://one.test/", "allow", "ServiceEntry team/one", "which the egress gateway has"},
		{"team/app", "http://one.test:8080/", "allow", "ServiceEntry team/two", "which the egress gateway has"},
	} {
		e := explained(t, s, policy.Question{From: c.from, URL: c.url})
		if by := e.DecidedBy.Kind + " " + e.DecidedBy.Namespace + "/" + e.DecidedBy.Name; e.Verdict != c.verdict || e.Waypoint != "shop/waypoint" || by != c.by || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s %s: %s at %q by %s, %s", c.from, c.url, e.Verdict, e.Waypoint, by, e.Reason)
		}
	}
}

// TestExplainPodsBehindWaypoint: pods with a sidecar, and those of which their node reads connections only, are asked about the waypoint, whoever the client is.
func TestExplainPodsBehindWaypoint(t *testing.T) {
	const readers = "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: by-waypoint, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, action: DENY, rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/waypoint], ipBlocks: [10.1.0.15]}}], to: [{operation: {methods: [PUT]}}]}]}\n"
	const tokens = "---\napiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: tokens, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, jwtRules: [{issuer: iss, jwks: '{}'}]}\n"
	const strict = "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: shop}\nspec: {mtls: {mode: STRICT}}\n"
	for _, c := range []struct{ what, more, from, want string }{
		{"who comes by it", "", "calm/app", "10.1.0.1,10.1.0.2 allow by mTLS AuthorizationPolicy by-waypoint"},
		{"who goes around", "", "other/app", "10.1.0.1 deny AuthorizationPolicy by-waypoint; 10.1.0.2 deny by mTLS AuthorizationPolicy by-waypoint"},
		{"a rule of requests", readers, "calm/app", "10.1.0.1 deny by mTLS AuthorizationPolicy by-waypoint; 10.1.0.2 allow by mTLS MeshConfig mesh"},
		{"STRICT", strict, "other/app", "10.1.0.1 deny PeerAuthentication strict; 10.1.0.2 deny by mTLS AuthorizationPolicy by-waypoint"},
		{"STRICT, by it", strict, "calm/app", "10.1.0.1,10.1.0.2 allow by mTLS AuthorizationPolicy by-waypoint"},
		{"tokens", tokens, "calm/app", "10.1.0.1 deny by mTLS RequestAuthentication tokens; 10.1.0.2 allow by mTLS AuthorizationPolicy by-waypoint"},
	} {
		e := explained(t, read(t, true, frontedObjects+c.more), policy.Question{From: c.from, URL: "http://web.shop.svc.cluster.local/"})
		var got []string
		for _, p := range e.Pods {
			by := map[bool]string{true: " by mTLS"}[p.MutualTLS]
			got = append(got, strings.Join(p.Addresses, ",")+" "+p.Verdict+by+" "+p.DecidedBy.Kind+" "+p.DecidedBy.Name)
		}
		if got := strings.Join(got, "; "); got != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.what, got, c.want, e.Reason)
		}
	}
}

func explained(t *testing.T, s *registry.Snapshot, q policy.Question) policy.Explanation {
	t.Helper()
	w, err := q.Workload()
	if err != nil {
		t.Fatal(err)
	}
	d, err := q.Destination()
	if err != nil {
		t.Fatal(err)
	}
	e, err := q.Answer(s, w, policy.Workload{}, d)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestExplainCustomAtWaypoint: where a policy before a Service has somebody asked, it is said whom, and where nobody can be asked, that it is closed; of another Service's
// provider nothing.
func TestExplainCustomAtWaypoint(t *testing.T) {
	const asking = `---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asking, namespace: shop}
spec: {targetRefs: [{kind: Service, name: web}], action: CUSTOM, provider: {name: PROVIDER}, rules: [{to: [{operation: {ports: ["80"], paths: ["/asked*"]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: theirs, namespace: calm}
spec: {targetRefs: [{kind: Service, name: far}], action: CUSTOM, provider: {name: another}, rules: [{}]}
`
	for _, c := range []struct{ provider, url, verdict, reason string }{
		{"opa", "http://web.shop/asked", "allow", "the provider opa is asked first, as AuthorizationPolicy shop/asking wants, and may deny it"},
		{"opa", "http://web.shop/else", "allow", "by the waypoint shop/waypoint"},
		{"gone", "http://web.shop/asked", "deny", "have no gone"},
		{"gone", "http://web.shop/else", "allow", "by the waypoint shop/waypoint"},
	} {
		cfg := mesh.Default()
		cfg.Authorizers = []mesh.Authorizer{{Name: "opa", GRPC: true, Host: "web.calm.svc.cluster.local", Port: 9191, Timeout: time.Second, StatusOnError: 403}}
		s := readWith(t, &cfg, frontedObjects+strings.ReplaceAll(asking, "PROVIDER", c.provider)+"---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: calm}\nspec: {clusterIP: 10.96.0.99, ports: [{name: grpc, port: 9191}]}\n")
		e := explained(t, s, policy.Question{From: "calm/app", URL: c.url})
		if e.Verdict != c.verdict || !strings.Contains(e.Reason, c.reason) || c.verdict == "deny" && e.DecidedBy.Name != "asking" {
			t.Errorf("%+v: %s by %+v: %s", c, e.Verdict, e.DecidedBy, e.Reason)
		}
	}
}

// TestExplainPodAtWaypoint: what an ambient workload sends to a pod's own address goes by the waypoint that the pod, or its namespace, asks for, if that is for workloads, with
// the policies for that; and then the pod is asked about the waypoint. What is sent to Services is another matter.
func TestExplainPodAtWaypoint(t *testing.T) {
	all := strings.Replace(frontedObjects, "metadata: {name: waypoint, namespace: shop}\nspec: {gatewayClassName", "metadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: workload}}\nspec: {gatewayClassName", 1) + `---
apiVersion: v1
kind: Pod
metadata: {name: db-1, namespace: shop, labels: {app: db}}
spec: {serviceAccountName: db}
status: {podIP: 10.1.0.3}
---
apiVersion: v1
kind: Pod
metadata: {name: lost-1, namespace: shop, labels: {app: lost, istio.io/use-waypoint: gone}}
spec: {serviceAccountName: lost}
status: {podIP: 10.1.0.4}
---
apiVersion: v1
kind: Pod
metadata: {name: plain-1, namespace: shop, labels: {app: plain}}
spec: {serviceAccountName: plain}
status: {podIP: 10.1.0.5}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: plain, namespace: shop}
spec: {selector: {matchLabels: {app: plain}}, mtls: {mode: DISABLE}}
---
apiVersion: v1
kind: Pod
metadata: {name: closed-1, namespace: shop, labels: {app: closed}}
spec: {serviceAccountName: closed}
status: {podIP: 10.1.0.6}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: closed, namespace: shop}
spec: {selector: {matchLabels: {app: closed}}, rules: [{from: [{source: {namespaces: [calm]}}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: dbs, namespace: shop}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: http, port: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dbs-1, namespace: shop, labels: {kubernetes.io/service-name: dbs}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.3], targetRef: {kind: Pod, namespace: shop, name: db-1}}]
`
	cfg := mesh.Default()
	cfg.OutboundAllowAny = true
	cfg.ClusterNetworks = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	s := readWith(t, &cfg, all)
	for _, c := range []struct{ from, method, url, verdict, waypoint, by, reason string }{
		{"calm/app", "GET", "http://10.1.0.3:80/", "allow", "shop/waypoint", "MeshConfig istio-system/mesh", "a pod's own address, by the waypoint shop/waypoint"},
		{"calm/app", "GET", "http://10.1.0.3:8080/", "allow", "shop/waypoint", "Service shop/dbs", "a pod's own address, by the waypoint shop/waypoint"},
		{"calm/app", "DELETE", "http://10.1.0.3:80/", "deny", "shop/waypoint", "AuthorizationPolicy shop/reading", "denied by"},
		{"calm/app", "", "tcp://10.1.0.3:5432", "allow", "shop/waypoint", "MeshConfig istio-system/mesh", "by the waypoint"},
		{"calm/app", "", "tcp://10.1.0.3:80", "deny", "shop/waypoint", "AuthorizationPolicy shop/reading", "denied by"},
		{"calm/app", "GET", "http://10.1.0.4:80/", "deny", "shop/gone", "Pod shop/lost-1", "there is no such waypoint"},
		{"calm/app", "GET", "http://10.1.0.5:80/", "deny", "shop/waypoint", "Pod shop/plain-1", "waypoints speak mutual TLS"},
		{"calm/app", "GET", "http://10.1.0.6:80/", "deny", "shop/waypoint", "AuthorizationPolicy shop/closed", "the pod refuses it"},
		{"calm/app", "GET", "http://web.shop/", "deny", "", "AuthorizationPolicy shop/by-waypoint", "a service of the mesh, whose pods refuse it"}, // it goes straight
		{"sidecars/app", "GET", "http://10.1.0.3:80/", "allow", "", "", ""},
	} {
		e := explained(t, s, policy.Question{From: c.from, Method: c.method, URL: c.url})
		if by := e.DecidedBy.Kind + " " + e.DecidedBy.Namespace + "/" + e.DecidedBy.Name; e.Verdict != c.verdict || e.Waypoint != c.waypoint || c.by != "" && by != c.by || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%+v: %s by %s, waypoint %q: %s", c, e.Verdict, by, e.Waypoint, e.Reason)
		}
	}
}
