package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// changed is a batch of objects, written as text; those of a "-" are removed.
func changedBy(t testing.TB, text string) (out []config.Change) {
	t.Helper()
	remove := strings.HasPrefix(text, "-")
	f := decode.File("objects.yaml", []byte(strings.TrimPrefix(text, "-")))
	if len(f.Findings) > 0 {
		t.Fatal(f.Findings)
	}
	for i := range f.Objects {
		c := config.Change{Key: f.Objects[i].Key, Object: &f.Objects[i]}
		if remove {
			c.Object = nil
		}
		out = append(out, c)
	}
	return out
}

// sameView holds that a view is what it is from nothing.
func sameView(t *testing.T, what string, v *translate.View, s *registry.Snapshot) {
	t.Helper()
	fresh := translate.NewTranslator().Build(s, v.Class)
	for _, kind := range resource.Types() {
		var got, want []string
		v.Walk(kind, func(r *resource.Resource) bool { got = append(got, r.Name+" "+r.Version); return true })
		fresh.Walk(kind, func(r *resource.Resource) bool { want = append(want, r.Name+" "+r.Version); return true })
		if !slices.Equal(got, want) {
			t.Errorf("%s: of type %v there is\n%s\nand from nothing\n%s", what, kind, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestWaypointFollows: whatever changes, what a waypoint and a node have is what they would have from nothing; and a neighbour's labels, routes and
// policies change nothing for a waypoint's Services, nor for those of others.
func TestWaypointFollows(t *testing.T) {
	waypoint, node, ingress := load(t, "testdata/waypoint.txtar"), load(t, "testdata/waypoint-node.txtar"), load(t, "testdata/waypoint-ingress.txtar")
	r := registry.New(&waypoint.mesh)
	var all []config.Change
	for i := range waypoint.objects {
		all = append(all, config.Change{Key: waypoint.objects[i].Key, Object: &waypoint.objects[i]})
	}
	for i := range ingress.objects {
		if o := &ingress.objects[i]; o.Namespace == "istio-ingress" || o.Kind == config.KindGateway || o.Kind == config.KindVirtualService {
			all = append(all, config.Change{Key: ingress.objects[i].Key, Object: &ingress.objects[i]})
		}
	}
	s, _ := r.Apply(all)
	tr := translate.NewTranslator()
	views := []*translate.View{tr.Build(s, translate.Classify(s, waypoint.node)), tr.Build(s, translate.Classify(s, node.node)), tr.Build(s, translate.Classify(s, ingress.node))}
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: NAME, namespace: NS, labels: {istio.io/use-waypoint: WAY}}\nspec: {clusterIP: 10.96.7.7, selector: {app: NAME}, ports: [{name: http, port: 80}]}\n"
	of := func(ns, name, way string) string {
		return strings.NewReplacer("NAME", name, "NS", ns, "WAY", way).Replace(service)
	}
	for _, step := range []struct {
		what, text string
		nothing    bool // for the waypoint, and for what the node has of its Services
	}{
		{"a neighbour's namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop, istio.io/dataplane-mode: ambient}}\n", true},
		{"a neighbour's Service", of("other", "theirs", "waypoint"), true},
		{"a neighbour's route", "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: other}\nspec: {hosts: [web.shop.svc.cluster.local], http: [{route: [{destination: {host: stranger.other.svc.cluster.local}}]}]}\n", true},
		{"a neighbour's policy", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: other}\nspec: {targetRefs: [{kind: Service, name: web}], action: DENY, rules: [{}]}\n", true},
		{"an ingress gateway goes by it", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint, istio.io/ingress-use-waypoint: 'true'}}\n", false},
		{"a Service more", of("shop", "more", "waypoint"), false},
		{"one that leaves", of("shop", "web", "none"), false},
		{"and comes back", strings.Replace(of("shop", "web", "waypoint"), "10.96.7.7", "10.96.0.1", 1), false},
		{"another policy", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: clients, namespace: shop}\nspec: {targetRefs: [{kind: Service, name: web}], rules: [{from: [{source: {namespaces: [other]}}]}]}\n", false},
		{"routes go", "-apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web, namespace: shop}\nspec: {hosts: [web.shop.svc.cluster.local], http: [{route: [{destination: {host: web.shop.svc.cluster.local}}]}]}\n", false},
		{"a route of the standard's", "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r, namespace: shop}\nspec: {parentRefs: [{group: '', kind: Service, name: web}], rules: [{backendRefs: [{name: plain, port: 80}]}]}\n", false},
		{"it is for all", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: all}}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n", false},
		{"a neighbour's pod", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint}}\nspec: {serviceAccountName: p}\nstatus: {podIP: 10.1.0.77}\n", true},
		{"a pod more", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {serviceAccountName: p}\nstatus: {podIP: 10.1.0.78}\n", false},
		{"that opts out", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop, labels: {istio.io/use-waypoint: none}}\nspec: {serviceAccountName: p}\nstatus: {podIP: 10.1.0.78}\n", false},
		{"and goes", "-apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nstatus: {podIP: 10.1.0.78}\n", false},
		{"a policy for pods", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: pods, namespace: shop}\nspec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}], action: DENY, rules: [{from: [{source: {namespaces: [bad]}}]}]}\n", false},
		{"pods that take no mutual TLS", "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: plain, namespace: shop}\nspec: {mtls: {mode: DISABLE}}\n", false},
		{"and take it again", "-apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: plain, namespace: shop}\nspec: {mtls: {mode: DISABLE}}\n", false},
		{"a headless Service", "apiVersion: v1\nkind: Service\nmetadata: {name: heads, namespace: shop}\nspec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 8080}]}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: heads-1, namespace: shop, labels: {kubernetes.io/service-name: heads}}\naddressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, namespace: shop, name: web-1}}]\n", false},
		{"it is for workloads", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: workload}}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n", false},
		{"and for Services alone", "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n", false},
		{"a Gateway takes the pods", "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: door, namespace: shop}\nspec: {selector: {app: web}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [door.test]}]}\n", false},
		{"and lets them go", "-apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: door, namespace: shop}\nspec: {selector: {app: web}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [door.test]}]}\n", false},
		{"the waypoint's pod goes", "-apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: waypoint-1, namespace: shop, labels: {kubernetes.io/service-name: waypoint}}\naddressType: IPv4\n", false},
		{"the namespace leaves", "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/dataplane-mode: ambient}}\n", false},
		{"the Gateway goes", "-apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop}\nspec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n", false},
	} {
		next, changed := r.Apply(changedBy(t, step.text))
		tr.Forget(changed)
		for i, v := range views {
			was := v
			views[i], _ = tr.Update(v, next, changed)
			sameView(t, step.what, views[i], next)
			if !step.nothing {
				continue
			}
			for _, kind := range resource.Types() {
				was.Walk(kind, func(r *resource.Resource) bool {
					if now, there := views[i].Get(kind, r.Name); (i == 0 || strings.Contains(r.Name, "shop")) && (!there || now.Version != r.Version) {
						t.Errorf("%s changes %s", step.what, r.Name)
					}
					return true
				})
			}
		}
	}
}

// TestWaypointLeadsNobodyAstray: what a waypoint may be shared for is its own Services: routes of another namespace do not reach others by its identity,
// nor does any go around another waypoint, and those that tell clients apart are closed.
func TestWaypointLeadsNobodyAstray(t *testing.T) {
	const objects = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: second, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: v1
kind: Service
metadata: {name: x, namespace: guest, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop}}
spec: {clusterIP: 10.96.1.1, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: mine, namespace: guest}
spec: {clusterIP: 10.96.1.2, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, labels: {istio.io/use-waypoint: waypoint}}
spec: {clusterIP: 10.96.1.3, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop, labels: {istio.io/use-waypoint: waypoint}}
spec: {clusterIP: 10.96.1.4, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: behind, namespace: shop, labels: {istio.io/use-waypoint: second}}
spec: {clusterIP: 10.96.1.5, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: pay, namespace: shop}
spec: {clusterIP: 10.96.1.6, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: open, namespace: third}
spec: {clusterIP: 10.96.1.7, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: hidden, namespace: third, annotations: {networking.istio.io/exportTo: shop}}
spec: {clusterIP: 10.96.1.8, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: NS}
spec: {hosts: [HOST.NS.svc.cluster.local], http: [{MATCHroute: [{destination: {host: TO.svc.cluster.local}}]}]}
`
	cfg := load(t, "testdata/waypoint.txtar").mesh
	class := translate.Class{Kind: translate.Waypoint, Gateway: registry.Ref{Namespace: "shop", Name: "waypoint"}}
	for _, c := range []struct{ ns, host, to, match, why string }{
		{"guest", "x", "mine.guest", "", ""},
		{"guest", "x", "pay.shop", "", "another namespace than the route"},
		{"guest", "x", "web.shop", "", "go around"},
		{"guest", "x", "open.third", "", "another namespace than the route"},
		{"guest", "x", "hidden.third", "", "is nothing that namespace guest sees"},
		{"shop", "web", "pay.shop", "", ""},
		{"shop", "web", "front.shop", "", ""},
		{"shop", "web", "open.third", "", ""},
		{"shop", "web", "behind.shop", "", "shop/second"},
		{"shop", "web", "x.guest", "", "go around"},
		{"shop", "web", "pay.shop", "match: [{sourceNamespace: shop}], ", "sourceNamespace"},
		{"shop", "web", "pay.shop", "match: [{sourceNamespace: guest}], ", "sourceNamespace"},
		{"shop", "web", "pay.shop", "match: [{sourceLabels: {app: a}}], ", "sourceLabels"},
	} {
		s, _ := registry.New(&cfg).Apply(changedBy(t, strings.NewReplacer("HOST", c.host, "NS", c.ns, "TO", c.to, "MATCH", c.match).Replace(objects)))
		v := translate.NewTranslator().Build(s, class)
		name := "inbound-vip|80|http|" + c.host + "." + c.ns + ".svc.cluster.local"
		r, there := v.Get(resource.Route, name)
		if !there {
			v.Walk(resource.Route, func(r *resource.Resource) bool { name += " " + r.Name; return true })
			t.Fatalf("%+v: no table %s", c, name)
		}
		table := string(r.Value())
		cluster := "outbound|80||" + c.to + ".svc.cluster.local"
		_, led := v.Get(resource.Cluster, cluster)
		if leads := strings.Contains(table, cluster); leads != (c.why == "") || c.why == "" && !led || !strings.Contains(table, c.why) {
			t.Errorf("%+v: leads there %v, has the cluster %v:\n%s", c, leads, led, table)
		}
	}
}

// TestWaypointForgets: nothing is remembered of a host that routes led to and that is gone.
func TestWaypointForgets(t *testing.T) {
	waypoint := load(t, "testdata/waypoint.txtar")
	r := registry.New(&waypoint.mesh)
	var all []config.Change
	for i := range waypoint.objects {
		all = append(all, config.Change{Key: waypoint.objects[i].Key, Object: &waypoint.objects[i]})
	}
	s, _ := r.Apply(all)
	tr := translate.NewTranslator()
	v := tr.Build(s, translate.Classify(s, waypoint.node))
	const plain = "plain.shop.svc.cluster.local"
	before := tr.Remembers("->" + plain)
	s, changed := r.Apply(changedBy(t, "-apiVersion: v1\nkind: Service\nmetadata: {name: plain, namespace: shop}\n"))
	tr.Forget(changed)
	tr.Update(v, s, changed)
	if after := tr.Remembers("->" + plain); before == 0 || after > 0 {
		t.Errorf("%d are remembered before, %d after", before, after)
	}
}

// sharedWaypoint is one of namespace infra, which an entry of team-a uses.
const sharedWaypoint = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shared, namespace: infra}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: shared, namespace: infra}
spec: {clusterIP: 10.96.2.1, selector: {gateway.networking.k8s.io/gateway-name: shared}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shared-1, namespace: infra, labels: {kubernetes.io/service-name: shared}}
addressType: IPv4
ports: [{name: mesh, port: 15008}]
endpoints: [{addresses: [10.1.2.1], targetRef: {kind: Pod, namespace: infra, name: shared-1}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: team-a, labels: {istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra}}
spec: {hosts: [a.out.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`

// TestNeighboursAtWaypoint: what others register, and would have of the same waypoint, changes nothing of what is sent there for a namespace that registered
// the host, nor of what becomes of it there, whoever comes first.
func TestNeighboursAtWaypoint(t *testing.T) {
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: theirs, namespace: TEAM, creationTimestamp: \"2020-01-01T00:00:00Z\", labels: {LABELS}}\nspec: {hosts: [\"HOST\"], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}\n"
	const policy = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: theirs, namespace: TEAM}\nspec: {targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: theirs}], action: DENY, rules: [{}]}\n"
	of := func(text, ns, labels, host string) string {
		return strings.NewReplacer("TEAM", ns, "LABELS", labels, "HOST", host).Replace(text)
	}
	const asks = "istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra"
	cfg := load(t, "testdata/waypoint.txtar").mesh
	r := registry.New(&cfg)
	s, _ := r.Apply(changedBy(t, strings.Replace(sharedWaypoint, "ports: [{number: 80, name: http, protocol: HTTP}]", "ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]", 1)))
	tr := translate.NewTranslator()
	views := []*translate.View{
		tr.Build(s, translate.Class{Kind: translate.Ambient}), tr.Build(s, translate.Class{Kind: translate.Ambient, View: "team-a"}),
		tr.Build(s, translate.Class{Kind: translate.Waypoint, Gateway: registry.Ref{Namespace: "infra", Name: "shared"}}),
	}
	own := []struct {
		view int
		kind resource.Type
		name string
	}{
		{1, resource.VirtualHost, "80/a.out.test"}, {1, resource.Cluster, "outbound|80||a.out.test"}, {1, resource.Cluster, "outbound|443||a.out.test"},
		{2, resource.Listener, "inbound-vip|80|http~team-a|a.out.test"}, {2, resource.Listener, "inbound-vip|443|tcp~team-a|a.out.test"},
	}
	was := map[string]string{}
	for _, step := range []struct{ what, text string }{
		{"nothing else", "apiVersion: v1\nkind: Namespace\nmetadata: {name: else}\n"},
		{"an older one in the waypoint's namespace", of(entry, "infra", "a: b", "a.out.test")},
		{"it goes", "-" + of(entry, "infra", "a: b", "a.out.test")},
		{"a pattern there", of(entry, "infra", "a: b", "*.out.test")},
		{"another pattern", of(entry, "infra", "a: b", "*.else.test")},
		{"an older neighbour's", of(entry, "team-0", "a: b", "a.out.test")},
		{"which asks for the waypoint, too", of(entry, "team-0", asks, "a.out.test")},
		{"with a policy", of(policy, "team-0", "", "")},
		{"it goes", "-" + of(entry, "team-0", asks, "a.out.test")},
	} {
		next, changed := r.Apply(changedBy(t, step.text))
		tr.Forget(changed)
		for i := range views {
			views[i], _ = tr.Update(views[i], next, changed)
			sameView(t, step.what, views[i], next)
		}
		for _, x := range own {
			res, there := views[x.view].Get(x.kind, x.name)
			switch {
			case !there:
				t.Errorf("%s: %s is not there", step.what, x.name)
			case was[x.name] != "" && was[x.name] != res.Version:
				t.Errorf("%s changes %s: %s", step.what, x.name, res.Value())
			case strings.Contains(string(res.Value()), "nothing is sent"):
				t.Errorf("%s closes %s: %s", step.what, x.name, res.Value())
			default:
				was[x.name] = res.Version
			}
		}
		routes, there := views[2].Get(resource.Route, "inbound-vip|80|http~team-a|a.out.test")
		if !there || strings.Contains(string(routes.Value()), "theirs") {
			t.Errorf("%s: what counts for team-a at the waypoint: %v", step.what, routes)
		}
	}
}

// TestAddressesBehindWaypointAreTheirOwners: an entry that writes the address of a Service behind the same waypoint does not get what is for that, whoever
// comes first, and of two hosts with one address one has it.
func TestAddressesBehindWaypointAreTheirOwners(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: team-b, labels: {istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra}}\nspec: {clusterIP: 203.0.113.9, ports: [{name: http, port: 80}]}\n"
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: takes, namespace: istio-system, labels: {istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra}}\nspec: {exportTo: [\"*\"], hosts: [a.takes.test, b.takes.test], addresses: [203.0.113.9], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n"
	cfg := load(t, "testdata/waypoint.txtar").mesh
	r := registry.New(&cfg)
	s, _ := r.Apply(changedBy(t, sharedWaypoint))
	tr := translate.NewTranslator()
	v := tr.Build(s, translate.Class{Kind: translate.Waypoint, Gateway: registry.Ref{Namespace: "infra", Name: "shared"}})
	for _, step := range []struct{ what, text, to string }{
		{"an entry", entry, "a.takes.test"},
		{"a Service", service, "web.team-b.svc.cluster.local"},
		{"the entry again", "-" + entry, "web.team-b.svc.cluster.local"},
		{"which comes back", entry, "web.team-b.svc.cluster.local"},
		{"the Service goes", "-" + service, "a.takes.test"},
	} {
		next, changed := r.Apply(changedBy(t, step.text))
		tr.Forget(changed)
		v, _ = tr.Update(v, next, changed)
		sameView(t, step.what, v, next)
		row, there := v.Get(resource.VirtualHost, "connect_terminate/203.0.113.9:80")
		if !there {
			t.Fatalf("%s: nothing has the address", step.what)
		}
		if text := string(row.Value()); !strings.Contains(text, step.to) {
			t.Errorf("%s: want it to lead to %s: %s", step.what, step.to, text)
		}
	}
}
