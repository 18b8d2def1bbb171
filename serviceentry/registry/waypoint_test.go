package registry_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const fronted = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop}
spec: {gatewayClassName: sallyport-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shared, namespace: infra}
spec:
  gatewayClassName: istio-waypoint
  listeners: [{name: mesh, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: shop}
spec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: shop}
spec: {clusterIP: 10.96.0.9, selector: {gateway.networking.k8s.io/gateway-name: waypoint}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: own, namespace: shop, labels: {istio.io/use-waypoint: none}}
spec: {clusterIP: 10.96.0.2, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: pods, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: far, namespace: shop, labels: {istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra}}
spec: {clusterIP: 10.96.0.3, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: lost, namespace: shop, labels: {istio.io/use-waypoint: gone}}
spec: {clusterIP: 10.96.0.4, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: wrong, namespace: shop, labels: {istio.io/use-waypoint: public}}
spec: {clusterIP: 10.96.0.5, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: other}
spec: {clusterIP: 10.96.0.6, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, namespace: shop, name: web-1}}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web}}
spec: {serviceAccountName: web}
status: {podIP: 10.1.0.1}
`

func applied(t *testing.T, r *registry.Registry, text string) (*registry.Snapshot, registry.Changed) {
	t.Helper()
	f := decode.File("objects.yaml", []byte(text))
	if len(f.Findings) > 0 {
		t.Fatal(f.Findings)
	}
	var all []config.Change
	for i := range f.Objects {
		all = append(all, config.Change{Key: f.Objects[i].Key, Object: &f.Objects[i]})
	}
	return r.Apply(all)
}

// waypointOf says which waypoint a Service has: "", "NAMESPACE/NAME", or that and why it cannot be used.
func waypointOf(t *testing.T, s *registry.Snapshot, ns, name string) string {
	t.Helper()
	list := s.Services(registry.Ref{Namespace: ns, Name: name}.Host())
	if len(list) != 1 {
		t.Fatalf("%s/%s: %d registrations", ns, name, len(list))
	}
	use, has := s.Waypoint(list[0])
	switch {
	case !has:
		return ""
	case use.Missing != "":
		return use.Gateway.String() + ": " + use.Missing
	default:
		return use.Gateway.String()
	}
}

// TestWaypoint: the narrowest label says which waypoint a Service has, and a namespace's label is about its own Services only.
func TestWaypoint(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	s, _ := applied(t, r, fronted)
	for _, c := range []struct{ ns, name, want string }{
		{"shop", "web", "shop/waypoint"},
		{"shop", "own", ""},
		{"shop", "pods", ""},
		{"shop", "waypoint", ""}, // itself
		{"shop", "far", "infra/shared: the waypoint's listener mesh lets no Services of namespace shop use it"},
		{"shop", "lost", "shop/gone: there is no such waypoint"},
		{"shop", "wrong", "shop/public: there is no such waypoint"},
		{"other", "web", ""},
	} {
		if got := waypointOf(t, s, c.ns, c.name); got != c.want && (!strings.Contains(c.want, ":") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s/%s has %q, want %q", c.ns, c.name, got, c.want)
		}
	}
	web := registry.Ref{Namespace: "shop", Name: "web"}.Host()
	if set := s.EndpointSet(web); set == nil || !set.List[0].Fronted {
		t.Errorf("the pod behind it: %+v", set)
	}
	// what is changed of labels counts at once, and is told
	s, changed := applied(t, r, strings.Replace(fronted[:strings.Index(fronted, "---")], "istio.io/use-waypoint: waypoint", "team: a", 1))
	if got := waypointOf(t, s, "shop", "web"); got != "" || !changed.Waypoints || !slices.Contains(changed.Endpoints, web) {
		t.Errorf("without the namespace's label: %q, %+v", got, changed)
	}
	if s.EndpointSet(web).List[0].Fronted {
		t.Error("the pod is still taken for one behind it")
	}
	if got := waypointOf(t, s, "shop", "far"); got != "infra/shared" {
		t.Errorf("of another namespace, which lets this one in: %q", got)
	}
	if _, changed = applied(t, r, "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/dataplane-mode: ambient}}\n"); !changed.Waypoints {
		t.Errorf("a label that the waypoint asks for is gone: %+v", changed)
	}
}

// TestIngressWaypoint: ingress gateways go by a Service's waypoint where its own label, or else its namespace's, says so, and that is told when it changes.
func TestIngressWaypoint(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	s, _ := applied(t, r, fronted)
	by := func(s *registry.Snapshot, name string) string {
		use, has := s.IngressWaypoint(s.Services(registry.Ref{Namespace: "shop", Name: name}.Host())[0])
		if !has {
			return ""
		}
		return use.Gateway.String()
	}
	if got := by(s, "web"); got != "" {
		t.Errorf("nobody asks for it: %q", got)
	}
	ns := func(value string) string {
		return "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint, istio.io/ingress-use-waypoint: '" + value + "'}}\n"
	}
	web := func(value string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop, labels: {istio.io/ingress-use-waypoint: '" + value + "'}}\nspec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}\n"
	}
	for _, c := range []struct{ what, text, want string }{
		{"the namespace", ns("true"), "shop/waypoint"},
		{"not the Service", web("false"), ""},
		{"the Service", web("True"), "shop/waypoint"},
		{"not the namespace", ns("false"), "shop/waypoint"},
		{"what is neither", web("yes"), ""},
		{"another namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: other, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop, istio.io/ingress-use-waypoint: 'true'}}\n", ""},
	} {
		was := by(s, "web")
		next, changed := applied(t, r, c.text)
		if got := by(next, "web"); got != c.want || got != was && !changed.Waypoints {
			t.Errorf("%s: %q, told: %t; want %q", c.what, got, changed.Waypoints, c.want)
		}
		s = next
	}
	for _, name := range []string{"own", "pods", "waypoint"} {
		next, _ := applied(t, r, ns("true"))
		if got := by(next, name); got != "" {
			t.Errorf("%s has no waypoint: %q", name, got)
		}
	}
}

// TestWaypointNotAccepted: a waypoint whose Gateway is not served closes its Services, with the reason.
func TestWaypointNotAccepted(t *testing.T) {
	for from, to := range map[string]string{
		"protocol: HBONE}]}":                             "protocol: HTTP}]}",
		"port: 15008, protocol: HBONE}]}":                "port: 15009, protocol: HBONE}]}",
		"{name: waypoint, namespace: shop}\nspec: {gate": "{name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: services}}\nspec: {gate",
		"sallyport-waypoint, listeners":                  "sallyport-waypoint, addresses: [{value: 10.0.0.1}], listeners",
	} {
		cfg := mesh.Default()
		text := strings.Replace(fronted, from, to, 1)
		if text == fronted {
			t.Fatalf("%q is not there", from)
		}
		s, _ := applied(t, registry.New(&cfg), text)
		if got := waypointOf(t, s, "shop", "web"); !strings.HasPrefix(got, "shop/waypoint: the waypoint") {
			t.Errorf("%s: %q", to, got)
		}
	}
}

// TestWaypointName: a waypoint's Service has its name, and one whose name no Service can have is refused.
func TestWaypointName(t *testing.T) {
	for _, name := range []string{"team.v1", "9web", strings.Repeat("a", 64)} {
		cfg := mesh.Default()
		s, _ := applied(t, registry.New(&cfg), strings.NewReplacer("metadata: {name: waypoint,", "metadata: {name: "+name+",", "use-waypoint: waypoint", "use-waypoint: "+name).Replace(fronted))
		if got := waypointOf(t, s, "shop", "web"); !strings.Contains(got, "metadata.name: "+name+": a waypoint's Service") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

const frontedEntries = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: $NS, LABELS}
spec: {hosts: [HOST], location: LOCATION, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]MORE}
`

// TestEntryWaypoint: an entry's own label counts, and closes what no waypoint stands before; its namespace's label is about the others only.
func TestEntryWaypoint(t *testing.T) {
	for _, c := range []struct{ ns, labels, host, location, more, want string }{
		{"shop", "labels: {}", "out.test", "MESH_EXTERNAL", "", "shop/waypoint"},
		{"other", "labels: {}", "out.test", "MESH_EXTERNAL", "", ""},
		{"shop", "labels: {istio.io/use-waypoint: none}", "out.test", "MESH_EXTERNAL", "", ""},
		{"other", "labels: {istio.io/use-waypoint: waypoint}", "out.test", "MESH_EXTERNAL", "", "other/waypoint: there is no such waypoint"},
		{"other", "labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop}", "out.test", "MESH_EXTERNAL", "", "shop/waypoint: the waypoint's listener mesh lets no"},
		{"shop", "labels: {}", "'*.out.test'", "MESH_EXTERNAL", "", ""},
		{"shop", "labels: {istio.io/use-waypoint: waypoint}", "'*.out.test'", "MESH_EXTERNAL", "", "shop/waypoint: a pattern has no waypoint"},
		{"shop", "labels: {}", "out.test", "MESH_EXTERNAL", ", exportTo: ['.']", ""},
		{"shop", "labels: {istio.io/use-waypoint: waypoint}", "out.test", "MESH_EXTERNAL", ", exportTo: ['.']", "shop/waypoint: the host is not exported to all"},
		{"shop", "annotations: {egress.sallyport.io/gateway: direct}", "out.test", "MESH_EXTERNAL", "", ""},
		{"shop", "labels: {istio.io/use-waypoint: waypoint}, annotations: {egress.sallyport.io/gateway: direct}", "out.test", "MESH_EXTERNAL", "", "shop/waypoint: the host leaves straight from pods"},
		{"shop", "labels: {}", "out.test", "MESH_INTERNAL", "", ""},
	} {
		cfg := mesh.Default()
		text := strings.NewReplacer("$NS", c.ns, "LABELS", c.labels, "HOST", c.host, "LOCATION", c.location, "MORE", c.more).Replace(frontedEntries)
		s, _ := applied(t, registry.New(&cfg), fronted+"---"+text)
		got := ""
		if use, has := s.Waypoint(s.Services(strings.Trim(c.host, "'"))[0]); has {
			got = strings.TrimSuffix(use.Gateway.String()+": "+use.Missing, ": ")
		}
		if got != c.want && (!strings.Contains(c.want, ":") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%+v: %q", c, got)
		}
	}
	// a label that the waypoint of another namespace asks for is told
	cfg := mesh.Default()
	r := registry.New(&cfg)
	text := strings.NewReplacer("$NS", "third", "LABELS", "labels: {istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra}", "HOST", "out.test", "LOCATION", "MESH_EXTERNAL", "MORE", "").Replace(frontedEntries)
	applied(t, r, fronted+"---"+text)
	s, changed := applied(t, r, "apiVersion: v1\nkind: Namespace\nmetadata: {name: third, labels: {team: a}}\n")
	if use, _ := s.Waypoint(s.Services("out.test")[0]); use.Missing != "" || !changed.Waypoints {
		t.Errorf("let in by its namespace's label: %+v, %+v", use, changed)
	}
}

// TestWaypointFor: a waypoint's label, or else its class's, says whether it stands before Services, before pods' own addresses, or before both; what it is not for goes straight. A
// pod's own label counts before its namespace's, and only pods that are in the mesh without sidecars have one.
func TestWaypointFor(t *testing.T) {
	pod := func(labels, more string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: web-1, namespace: shop, labels: {app: web" + labels + "}}\nspec: {serviceAccountName: web" + more + "}\nstatus: {podIP: 10.1.0.1}\n"
	}
	gateway := func(what string) string {
		return "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {" + what + "}}\nspec: {gatewayClassName: sallyport-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}\n"
	}
	const class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: sallyport-waypoint, labels: {istio.io/waypoint-for: FOR}}\nspec: {controllerName: egress.sallyport.io/gateway-controller}\n"
	for _, c := range []struct{ what, service, pod string }{
		{gateway(""), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: service"), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: workload"), "", "shop/waypoint"},
		{gateway("istio.io/waypoint-for: all"), "shop/waypoint", "shop/waypoint"},
		{gateway("istio.io/waypoint-for: none"), "", ""},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod(", istio.io/use-waypoint: none", ""), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod(", istio.io/use-waypoint: gone", ""), "shop/waypoint", "shop/gone: there is no such waypoint"},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod(", security.istio.io/tlsMode: istio", ""), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod(", istio.io/dataplane-mode: none", ""), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod(", gateway.networking.k8s.io/gateway-name: waypoint", ""), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod("", ", hostNetwork: true"), "shop/waypoint", ""},
		{gateway("istio.io/waypoint-for: all") + "---\n" + pod(", istio.io/use-waypoint: shared, istio.io/use-waypoint-namespace: infra", ""), "shop/waypoint", ""}, // it is for Services
		{strings.Replace(class, "FOR", "workload", 1), "", "shop/waypoint"},
		{strings.Replace(class, "FOR", "workload", 1) + "---\n" + gateway("istio.io/waypoint-for: service"), "shop/waypoint", ""},
	} {
		cfg := mesh.Default()
		cfg.ClusterNetworks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		r := registry.New(&cfg)
		was, _ := applied(t, r, fronted)
		s, changed := applied(t, r, c.what)
		if got := waypointOf(t, s, "shop", "web"); got != c.service {
			t.Errorf("%s: the Service has %q, want %q", c.what, got, c.service)
		}
		got := ""
		p, there := s.PodAt(netip.MustParseAddr("10.1.0.1"))
		if there {
			if use, has := s.PodWaypoint(p); has {
				got = strings.TrimSuffix(use.Gateway.String()+": "+use.Missing, ": ")
			}
		}
		if got != c.pod && (c.pod == "" || !strings.Contains(c.pod, ":") || !strings.HasPrefix(got, c.pod)) {
			t.Errorf("%s: the pod has %q, want %q", c.what, got, c.pod)
		}
		if nets := len(s.FrontedNetworks()); nets != min(len(got), 1) {
			t.Errorf("%s: %d networks with such pods", c.what, nets)
		}
		if len(was.FrontedNetworks()) != len(s.FrontedNetworks()) && !changed.Waypoints && len(changed.Pods) == 0 {
			t.Errorf("%s: nobody is told", c.what)
		}
		fresh := registry.New(&cfg)
		applied(t, fresh, fronted)
		again, _ := applied(t, fresh, c.what)
		if !slices.Equal(again.FrontedNetworks(), s.FrontedNetworks()) {
			t.Errorf("%s: %v, from nothing %v", c.what, s.FrontedNetworks(), again.FrontedNetworks())
		}
	}
}

// TestPodsAddressIsOnePods: of several pods that say that an address is theirs it is the eldest's, and what that one asks for counts alone. An address that is none of the cluster's
// networks, a Node's or reserved is no pod's.
func TestPodsAddressIsOnePods(t *testing.T) {
	const waypoint = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: waypoint, namespace: shop, labels: {istio.io/waypoint-for: workload}}\nspec: {gatewayClassName: sallyport-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: All}}}]}\n"
	pod := func(ns, name, labels, created, more, ips string) string {
		return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: " + ns + ", creationTimestamp: " + created + ", labels: {istio.io/dataplane-mode: ambient" + labels + "}}\nspec: {serviceAccountName: p" + more + "}\nstatus: " + ips + "\n"
	}
	const asks, old, young = ", istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: shop", "\"2020-01-01T00:00:00Z\"", "\"2021-01-01T00:00:00Z\""
	at := func(list string) string { return "{podIPs: [" + list + "], phase: Running}" }
	one := at("{ip: 10.1.0.1}")
	for _, c := range []struct{ name, objects, owner string }{
		{"alone", pod("b", "p", asks, young, "", one), "b/p"},
		{"another's that asks for none", pod("a", "p", "", old, "", one) + pod("b", "p", asks, young, "", one), ""},
		{"its own, and a neighbour says that it is his", pod("a", "p", asks, old, "", one) + pod("b", "p", ", istio.io/use-waypoint: none", young, "", one), "a/p"},
		{"on the host's network", pod("a", "p", "", old, ", hostNetwork: true", one) + pod("b", "p", asks, young, "", one), ""},
		{"of one that is over", pod("a", "p", "", old, "", "{podIP: 10.1.0.1, phase: Succeeded}") + pod("b", "p", asks, young, "", one), "b/p"},
		{"the second address", pod("b", "p", asks, young, "", at("{ip: 10.1.0.9}, {ip: 10.1.0.1}")), "b/p"},
		{"a Node's", "---\napiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nstatus: {addresses: [{type: InternalIP, address: 10.1.0.1}]}\n" + pod("b", "p", asks, young, "", one), ""},
	} {
		cfg := mesh.Default()
		cfg.ClusterNetworks = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
		r := registry.New(&cfg)
		s, _ := applied(t, r, waypoint+c.objects)
		got := ""
		if p, there := s.PodAt(netip.MustParseAddr("10.1.0.1")); there {
			got = p.Pod.Namespace + "/" + p.Pod.Name
		}
		if got != c.owner {
			t.Errorf("%s: %q, want %q", c.name, got, c.owner)
		}
		if s, _ = applied(t, r, pod("b", "out", asks, young, "", at("{ip: 203.0.113.7}"))); s.InCluster(netip.MustParseAddr("203.0.113.7")) {
			t.Fatal("it is outside")
		}
		if p, there := s.PodAt(netip.MustParseAddr("203.0.113.7")); there {
			t.Errorf("an address outside is %v's", p.Pod)
		}
	}
}
