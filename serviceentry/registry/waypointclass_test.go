package registry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestPoliciesForClassesOfWaypoints: a policy of the root namespace for a GatewayClass is for all waypoints of the class, beside those that target the waypoint, and one of any
// other namespace is for none; it follows a Gateway whose class is another one.
func TestPoliciesForClassesOfWaypoints(t *testing.T) {
	const policies = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: all, namespace: istio-system}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio-waypoint}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: theirs, namespace: shop}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio-waypoint}, {group: gateway.networking.k8s.io, kind: GatewayClass, name: sallyport-waypoint}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: own, namespace: shop}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}]}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: istio-system}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: GatewayClass, name: istio-waypoint}], jwtRules: [{issuer: a, jwks: '{}'}]}
`
	cfg := mesh.Default()
	r := registry.New(&cfg)
	applied(t, r, fronted)
	s, _ := applied(t, r, policies)
	at := func(s *registry.Snapshot, ns, name, service string) string {
		ref := registry.Ref{Namespace: ns, Name: name}
		var out, pods []string
		for _, p := range s.AuthorizingFront(ref, s.Services(service + ".shop.svc.cluster.local")[0]) {
			out = append(out, p.Key.Namespace+"/"+p.Key.Name)
		}
		for _, p := range s.AuthorizingPods(ref) {
			pods = append(pods, p.Key.Namespace+"/"+p.Key.Name)
		}
		if !slices.Equal(out, pods) {
			t.Errorf("%s: %v before the Service, %v before pods", ref, out, pods)
		}
		for _, a := range s.VerifyingFront(ref) {
			out = append(out, "and "+a.Key.Namespace+"/"+a.Key.Name)
		}
		return strings.Join(out, " ")
	}
	if got, want := at(s, "infra", "shared", "far"), "istio-system/all and istio-system/tokens"; got != want {
		t.Errorf("of the class: %s, want %s", got, want)
	}
	if got, want := at(s, "shop", "waypoint", "web"), "shop/own"; got != want {
		t.Errorf("of another class: %s, want %s", got, want)
	}
	s, changed := applied(t, r, `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
`)
	if got, want := at(s, "shop", "waypoint", "web"), "istio-system/all shop/own and istio-system/tokens"; got != want || !slices.Contains(changed.Authorization, "istio-system") {
		t.Errorf("of the class now: %s, want %s; told of %v", got, want, changed.Authorization)
	}
	cfg.RootNamespace = "shop" // which has a waypoint itself
	r = registry.New(&cfg)
	applied(t, r, fronted)
	s, _ = applied(t, r, policies)
	if got, want := at(s, "shop", "waypoint", "web"), "shop/own shop/theirs"; got != want {
		t.Errorf("in the root namespace: %s, want %s", got, want)
	}
}
