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
func changedBy(t *testing.T, text string) (out []config.Change) {
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
	waypoint, node := load(t, "testdata/waypoint.txtar"), load(t, "testdata/waypoint-node.txtar")
	r := registry.New(&waypoint.mesh)
	var all []config.Change
	for i := range waypoint.objects {
		all = append(all, config.Change{Key: waypoint.objects[i].Key, Object: &waypoint.objects[i]})
	}
	s, _ := r.Apply(all)
	tr := translate.NewTranslator()
	views := []*translate.View{tr.Build(s, translate.Classify(s, waypoint.node)), tr.Build(s, translate.Classify(s, node.node))}
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
		{"a Service more", of("shop", "more", "waypoint"), false},
		{"one that leaves", of("shop", "web", "none"), false},
		{"and comes back", strings.Replace(of("shop", "web", "waypoint"), "10.96.7.7", "10.96.0.1", 1), false},
		{"another policy", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: clients, namespace: shop}\nspec: {targetRefs: [{kind: Service, name: web}], rules: [{from: [{source: {namespaces: [other]}}]}]}\n", false},
		{"routes go", "-apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web, namespace: shop}\nspec: {hosts: [web.shop.svc.cluster.local], http: [{route: [{destination: {host: web.shop.svc.cluster.local}}]}]}\n", false},
		{"a route of the standard's", "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r, namespace: shop}\nspec: {parentRefs: [{group: '', kind: Service, name: web}], rules: [{backendRefs: [{name: plain, port: 80}]}]}\n", false},
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
