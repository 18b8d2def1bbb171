package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
)

// serviceRouteYAML is an HTTPRoute "NS/NAME" with Services as parents, and its rules.
func serviceRouteYAML(id, parents, rules string) string {
	ns, name, _ := strings.Cut(id, "/")
	return fmt.Sprintf("---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s, namespace: %s}\nspec:\n  parentRefs: [%s]\n  rules: [%s]\n", name, ns, parents, rules)
}

func kubeServiceYAML(id, ports string) string {
	ns, name, _ := strings.Cut(id, "/")
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec: {clusterIP: 10.0.0.%d, ports: [%s]}\n", name, ns, 1+len(id), ports)
}

const (
	ofWeb = `{group: "", kind: Service, name: web, namespace: shop}`
	toNew = `{backendRefs: [{name: new, namespace: shop, port: 80}]}`
	webs  = "{name: http, port: 80}, {name: http-alt, port: 8080}, {name: tcp, port: 9000}"
)

// ways are the destinations of requests to a Service's port, in order; none where no route is for it.
func (w world) ways(host, ns string, port uint32) (out []string) {
	w.Helper()
	s := w.Snapshot()
	svc := s.Visible(host, ns, nil)
	if svc == nil {
		w.Fatalf("%s is not there for %s", host, ns)
	}
	v := s.Routes(svc, ns, s.Selecting(ns, nil))
	if v == nil {
		return nil
	}
	for _, h := range v.HTTP {
		if h.Matches[0].Port == 0 || h.Matches[0].Port == port {
			for _, d := range h.Destinations {
				out = append(out, h.From.Namespace+"/"+h.From.Name+" → "+d.Host)
			}
		}
	}
	return out
}

// TestServiceRoutes: routes of a Service's own namespace lead all who ask for it, others their own namespace's pods; those of one namespace
// count together, in the API's order, and a VirtualService of it leads alone.
func TestServiceRoutes(t *testing.T) {
	const web, toTheNew = "web.shop.svc.cluster.local", "new.shop.svc.cluster.local"
	w := newWorld(t, kubeServiceYAML("shop/web", webs), kubeServiceYAML("shop/new", webs))
	check := func(what, ns string, port uint32, want ...string) {
		t.Helper()
		if got := w.ways(web, ns, port); !slices.Equal(got, want) {
			t.Errorf("%s: from %s at %d: %q, want %q", what, ns, port, got, want)
		}
	}
	check("without any", "team-a", 80)
	if changed := w.apply(serviceRouteYAML("shop/r", ofWeb, toNew)); !slices.Equal(changed.Hosts, []string{web}) {
		t.Errorf("%v changed", changed.Hosts)
	}
	check("the Service's own", "team-a", 80, "shop/r → "+toTheNew)
	check("the Service's own, every port", "shop", 8080, "shop/r → "+toTheNew)

	if w.Snapshot().Different("shop") {
		t.Error("shop sees something else than all, who follow its route")
	}
	w.apply(serviceRouteYAML("team-a/c", strings.TrimSuffix(ofWeb, "}")+", port: 80}", toNew))
	check("a client's own", "team-a", 80, "team-a/c → "+toTheNew)
	check("a client's own, of others", "team-b", 80, "shop/r → "+toTheNew)

	if !w.Snapshot().Different("team-a") {
		t.Error("team-a follows a route of its own, and sees what all do")
	}
	w.apply(serviceRouteYAML("shop/exact", ofWeb, "{matches: [{path: {type: Exact, value: /x}}], backendRefs: [{name: web, port: 80}]}"))
	check("of two the one that asks for more is first", "team-b", 80, "shop/exact → "+web, "shop/r → "+toTheNew)

	v := virtualYAML("shop/v", "web", "http: [{route: [{destination: {host: web}}]}]")
	w.apply(v)
	check("a VirtualService beside", "team-b", 80, "shop/v → "+web)
	w.remove(v)
	check("and after it", "team-b", 80, "shop/exact → "+web, "shop/r → "+toTheNew)

	w.apply(serviceRouteYAML("shop/exact", strings.Replace(ofWeb, "web", "new", 1), toNew))
	check("one that is for another now", "team-b", 80, "shop/r → "+toTheNew)
	w.remove(serviceRouteYAML("shop/r", ofWeb, toNew))
	check("one that is gone", "team-b", 80)
}

// TestServiceRoutesFollow: a route counts once its Service is there, and what leads to a Service is told of when that comes.
func TestServiceRoutesFollow(t *testing.T) {
	const web, toTheNew = "web.shop.svc.cluster.local", "new.shop.svc.cluster.local"
	w := newWorld(t, serviceRouteYAML("shop/r", ofWeb, toNew))
	key := config.Key{Kind: config.KindHTTPRoute, Namespace: "shop", Name: "r"}
	changed := w.apply(kubeServiceYAML("shop/web", webs))
	if !slices.Contains(changed.Hosts, web) || !slices.Contains(changed.GatewayAPI, key) {
		t.Errorf("the parent came: %v and %v changed", changed.Hosts, changed.GatewayAPI)
	}
	if got := w.ways(web, "x", 80); len(got) != 1 {
		t.Errorf("once it is there: %v", got)
	}
	changed = w.apply(kubeServiceYAML("shop/new", webs))
	if !slices.Equal(changed.Hosts, []string{toTheNew, web}) || !slices.Contains(changed.GatewayAPI, key) {
		t.Errorf("the backend came: %v and %v changed", changed.Hosts, changed.GatewayAPI)
	}
	if w.apply(kubeServiceYAML("shop/web", "{name: tcp, port: 9000}")); w.ways(web, "x", 80) != nil {
		t.Errorf("where nothing speaks HTTP: %v", w.ways(web, "x", 80))
	}
}
