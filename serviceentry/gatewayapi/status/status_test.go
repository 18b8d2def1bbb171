package status_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const service = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
`

const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: sallyport
  listeners:
  - {name: http, port: 80, protocol: HTTP, hostname: "*.example.com", allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {open: "yes"}}}}}
  - {name: same, port: 8080, protocol: HTTP}
  - {name: again, port: 8080, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert, namespace: keys}]}}
`

const routeText = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: shop}
spec:
  parentRefs: [{name: public, namespace: infra, sectionName: http}]
  hostnames: [a.example.com]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

const open = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {open: "yes"}}
`

var (
	routeKey   = config.Key{Kind: config.KindHTTPRoute, Namespace: "shop", Name: "r"}
	gatewayKey = config.Key{Kind: config.KindKubeGateway, Namespace: "infra", Name: "public"}
)

func settings() *mesh.Config {
	c := mesh.Default()
	return &c
}

// apply hands objects to a registry, one batch each.
func apply(t *testing.T, r *registry.Registry, batches ...string) (*registry.Snapshot, registry.Changed) {
	t.Helper()
	var snap *registry.Snapshot
	var changed registry.Changed
	for _, text := range batches {
		f := decode.File("a.yaml", []byte(text))
		if len(f.Findings) > 0 {
			t.Fatal(f.Findings)
		}
		var all []config.Change
		for i := range f.Objects {
			all = append(all, config.Change{Key: f.Objects[i].Key, Object: &f.Objects[i]})
		}
		snap, changed = r.Apply(all)
	}
	return snap, changed
}

func said(list []metav1.Condition) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Type+"="+string(c.Status)+"/"+c.Reason)
	}
	return strings.Join(out, " ")
}

func routeSaid(t *testing.T, s *registry.Snapshot) string {
	t.Helper()
	got, ok := status.Route(s, routeKey)
	if !ok || len(got.Parents) != 1 {
		t.Fatalf("parents: %v", got.Parents)
	}
	return said(got.Parents[0].Conditions)
}

// TestRoute: what a route is told follows what it depends on, in whatever order that comes.
func TestRoute(t *testing.T) {
	r := registry.New(settings())
	s, _ := apply(t, r, routeText, gateway)
	if got, want := routeSaid(t, s), "Accepted=False/NotAllowedByListeners ResolvedRefs=False/BackendNotFound"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	s, changed := apply(t, r, open)
	if got, want := routeSaid(t, s), "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound"; got != want || len(changed.GatewayAPI) != 2 {
		t.Errorf("got %s\nwant %s; told of %v", got, want, changed.GatewayAPI)
	}
	s, changed = apply(t, r, service)
	if got, want := routeSaid(t, s), "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"; got != want || len(changed.GatewayAPI) != 1 {
		t.Errorf("got %s\nwant %s; told of %v", got, want, changed.GatewayAPI)
	}
	for _, c := range []struct{ from, to, want string }{
		{"a.example.com", "a.example.org", "Accepted=False/NoMatchingListenerHostname ResolvedRefs=True/ResolvedRefs"},
		{"sectionName: http", "sectionName: none", "Accepted=False/NoMatchingParent ResolvedRefs=True/ResolvedRefs"},
		{"port: 80}", "port: 81}", "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound"},
		{"{name: web,", "{name: web, namespace: bank,", "Accepted=True/Accepted ResolvedRefs=False/RefNotPermitted"},
		{"{name: web,", "{name: web, kind: Bucket,", "Accepted=True/Accepted ResolvedRefs=False/InvalidKind"},
		{"rules: [{", "rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: web, port: 80}}}], ", "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"},
		{"rules: [{", "rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: web, port: 80}}}], ", "Accepted=True/Accepted ResolvedRefs=False/UnsupportedProtocol"},
		{"rules: [{", "rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: web, namespace: bank, port: 80}}}], ", "Accepted=True/Accepted ResolvedRefs=False/RefNotPermitted"},
		{"rules: [{", "rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: gone, port: 80}}}], ", "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound"},
		{"rules: [{", "rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: SOAP, backendRef: {name: web, port: 80}}}], ", "Accepted=False/UnsupportedValue ResolvedRefs=True/ResolvedRefs"},
		{"rules: [{", "rules: [{filters: [{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}], ", "Accepted=False/UnsupportedValue ResolvedRefs=True/ResolvedRefs"},
	} {
		s, _ := apply(t, r, strings.Replace(routeText, c.from, c.to, 1))
		if got := routeSaid(t, s); got != c.want {
			t.Errorf("%s: got %s\nwant %s", c.to, got, c.want)
		}
	}
}

// TestServiceAsParent: what a route is told that has a Service as its parent.
func TestServiceAsParent(t *testing.T) {
	const text = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: team}
spec:
  parentRefs: [{group: "", kind: Service, name: web, namespace: shop}]
  rules: [{backendRefs: [{name: web, namespace: shop, port: 80}]}]
`
	r := registry.New(settings())
	for _, c := range []struct{ batch, from, to, want string }{
		{"", "", "", "Accepted=False/NoMatchingParent ResolvedRefs=False/BackendNotFound"},
		{service, "", "", "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"}, // no grant is asked for
		{"", "namespace: shop}]\n  rules", "namespace: shop, port: 80}]\n  rules", "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"},
		{"", "namespace: shop}]\n  rules", "namespace: shop, port: 81}]\n  rules", "Accepted=False/NoMatchingParent ResolvedRefs=True/ResolvedRefs"},
		{"", "kind: HTTPRoute", "kind: TCPRoute", "Accepted=False/UnsupportedProtocol ResolvedRefs=True/ResolvedRefs"},
		{"", "rules: [{", "rules: [{sessionPersistence: {}, ", "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"},
		{"", "rules: [{", "rules: [{sessionPersistence: {type: Cookie, absoluteTimeout: 1h}, ", "Accepted=False/UnsupportedValue ResolvedRefs=True/ResolvedRefs"},
		{"", "rules: [{", "rules: [{filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: web, namespace: shop, port: 80}}}], ", "Accepted=False/UnsupportedValue ResolvedRefs=False/UnsupportedProtocol"},
		{"", "port: 80}]}", "port: 82}]}", "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound"},
	} {
		route := strings.Replace(text, c.from, c.to, 1)
		s, _ := apply(t, r, route)
		if c.batch != "" {
			s, _ = apply(t, r, c.batch)
		}
		key := config.Key{Kind: config.KindHTTPRoute, Namespace: "team", Name: "r"}
		if strings.Contains(route, "TCPRoute") {
			key.Kind = config.KindTCPRoute
		}
		got, ok := status.Route(s, key)
		if !ok || len(got.Parents) != 1 || said(got.Parents[0].Conditions) != c.want {
			t.Errorf("%s: got %v\nwant %s", c.to, got.Parents, c.want)
		}
	}
}

// TestGateway: listeners that want the same, and a certificate of another namespace.
func TestGateway(t *testing.T) {
	r := registry.New(settings())
	s, _ := apply(t, r, gateway, open, routeText)
	got, ok := status.Gateway(s, gatewayKey)
	if !ok {
		t.Fatal("no status")
	}
	want := []string{
		"Accepted=True/ListenersNotValid Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs",
		"Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts",
		"Accepted=False/HostnameConflict Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=True/HostnameConflict",
		"Accepted=False/HostnameConflict Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=True/HostnameConflict",
		"Accepted=True/Accepted Programmed=False/Invalid ResolvedRefs=False/RefNotPermitted Conflicted=False/NoConflicts",
	}
	list := []string{said(got.Conditions)}
	for _, l := range got.Listeners {
		list = append(list, said(l.Conditions))
	}
	for i := range want {
		if list[i] != want[i] {
			t.Errorf("%d: got %s\nwant %s", i, list[i], want[i])
		}
	}
	if n := got.Listeners[0].AttachedRoutes; n != 1 {
		t.Errorf("%d routes are attached", n)
	}
	s, _ = r.Apply([]config.Change{{Key: routeKey}})
	if got, _ := status.Gateway(s, gatewayKey); got.Listeners[0].AttachedRoutes != 0 {
		t.Errorf("%d routes are attached once it is gone", got.Listeners[0].AttachedRoutes)
	}
	s, changed := apply(t, r, "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: g, namespace: keys}\nspec:\n  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}]\n  to: [{group: '', kind: Secret}]\n")
	got, _ = status.Gateway(s, gatewayKey)
	if got := said(got.Listeners[3].Conditions[2:3]); got != "ResolvedRefs=False/InvalidCertificateRef" || len(changed.GatewayAPI) < 2 {
		t.Errorf("with a grant: %s, told of %v", got, changed.GatewayAPI)
	}
}

const waypointText = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra, labels: {istio.io/waypoint-for: FOR}}
spec:
  gatewayClassName: CLASS
  listeners: [{name: mesh, port: 15008, protocol: HBONE}MORE]
`

// TestWaypoint: a waypoint has one listener, of HBONE, and for whom it is has to be a word that is kept.
func TestWaypoint(t *testing.T) {
	const good, bad = "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs", "Accepted=False/ListenersNotValid Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs"
	for _, c := range []struct{ class, waypointFor, more, gateway, listener string }{
		{"istio-waypoint", "service", "", good, "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"},
		{"sallyport-waypoint", "none", "", good, "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"},
		{"istio-waypoint", "workload", "", good, "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"},
		{"istio-waypoint", "all", "", good, "Accepted=True/Accepted Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"},
		{"istio-waypoint", "everything", "", bad, "Accepted=False/UnsupportedValue Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"},
		{
			"istio-waypoint", "service", ", {name: http, port: 80, protocol: HTTP}", "Accepted=True/ListenersNotValid Programmed=True/Programmed ResolvedRefs=True/ResolvedRefs",
			"Accepted=False/UnsupportedProtocol Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts",
		},
		{"sallyport", "service", "", bad, "Accepted=False/UnsupportedProtocol Programmed=False/Invalid ResolvedRefs=True/ResolvedRefs Conflicted=False/NoConflicts"},
	} {
		s, _ := apply(t, registry.New(settings()), strings.NewReplacer("CLASS", c.class, "FOR", c.waypointFor, "MORE", c.more).Replace(waypointText))
		got, ours := status.Gateway(s, gatewayKey)
		if !ours {
			t.Errorf("%s: not ours", c.class)
			continue
		}
		if said(got.Conditions) != c.gateway {
			t.Errorf("%+v: %s", c, said(got.Conditions))
		}
		last := got.Listeners[len(got.Listeners)-1]
		if said(last.Conditions) != c.listener {
			t.Errorf("%+v: listener %s: %s", c, last.Name, said(last.Conditions))
		}
	}
	class := "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: istio-waypoint}\nspec: {controllerName: istio.io/mesh-controller}\n"
	s, _ := apply(t, registry.New(settings()), strings.NewReplacer("CLASS", "istio-waypoint", "FOR", "service", "MORE", "").Replace(waypointText), class)
	if _, ours := status.Gateway(s, gatewayKey); ours {
		t.Error("a waypoint of somebody else's class is ours")
	}
}
