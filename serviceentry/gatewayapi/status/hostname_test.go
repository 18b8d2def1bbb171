package status_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const entries = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: inner, namespace: shop}
spec: {hosts: [inner.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, location: MESH_INTERNAL, endpoints: [{address: 10.1.0.7}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: outside, namespace: bank}
spec: {hosts: [external.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS, location: MESH_EXTERNAL}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: hidden, namespace: bank}
spec: {hosts: [hidden.test], exportTo: ["."], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, location: MESH_INTERNAL, endpoints: [{address: 10.1.0.8}]}
---
apiVersion: v1
kind: Service
metadata: {name: ledger, namespace: bank}
spec: {clusterIP: 10.0.0.2, ports: [{name: http, port: 80}]}
`

// TestHostnames: a backend may be a host that the route's namespace sees; who has a Service of its own parent's is led outside, too.
func TestHostnames(t *testing.T) {
	gatewayParent, serviceParent := "{name: public, namespace: infra, sectionName: http}", `{group: "", kind: Service, name: web}`
	for _, c := range []struct{ parent, backend, reason, message string }{
		{gatewayParent, "name: inner.test, port: 80", "ResolvedRefs", ""},
		{gatewayParent, "name: INNER.test, port: 80", "ResolvedRefs", ""},
		{gatewayParent, "name: web.shop.svc.cluster.local, port: 80", "ResolvedRefs", ""},
		{gatewayParent, "name: external.com, port: 80", "RefNotPermitted", "outside of the mesh"},
		{serviceParent, "name: external.com, port: 80", "ResolvedRefs", ""},
		{serviceParent, "name: hidden.test, port: 80", "BackendNotFound", "namespace shop sees"},
		{gatewayParent, "name: gone.test, port: 80", "BackendNotFound", "write a ServiceEntry"},
		{gatewayParent, "name: inner.test, port: 81", "BackendNotFound", "no port 81"},
		{gatewayParent, "name: ledger.bank.svc.cluster.local, port: 80", "RefNotPermitted", "kind: Service"},
		{gatewayParent, "name: inner.test, namespace: bank, port: 80", "UnsupportedValue", "in none"},
		{gatewayParent, "name: inner.test", "UnsupportedValue", "without a port"},
		{gatewayParent, "name: web, port: 80", "UnsupportedValue", "no full name"},
	} {
		text := strings.Replace(strings.Replace(routeText, "{name: public, namespace: infra, sectionName: http}", c.parent, 1), "{name: web, port: 80}", "{group: networking.istio.io, kind: Hostname, "+c.backend+"}", 1)
		snap, _ := apply(t, registry.New(settings()), service+"---"+gateway+"---"+open+"---"+entries+"---"+text)
		s, _ := status.Route(snap, routeKey)
		if len(s.Parents) != 1 || len(s.Parents[0].Conditions) != 2 {
			t.Fatalf("%s %s: %+v", c.parent, c.backend, s)
		}
		if got := s.Parents[0].Conditions[1]; got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s %s: %s %q, want %s %q", c.parent, c.backend, got.Reason, got.Message, c.reason, c.message)
		}
	}
}

// TestHostnamesComeAndGo: a route's status is told again when the host that it names is registered, or is no more.
func TestHostnamesComeAndGo(t *testing.T) {
	r := registry.New(settings())
	text := strings.Replace(routeText, "{name: web, port: 80}", "{group: networking.istio.io, kind: Hostname, name: inner.test, port: 80}", 1)
	snap, _ := apply(t, r, gateway+"---"+open+"---"+text)
	reason := func() string {
		s, _ := status.Route(snap, routeKey)
		return s.Parents[0].Conditions[1].Reason
	}
	if got := reason(); got != "BackendNotFound" {
		t.Errorf("%s before there is an entry", got)
	}
	snap, changed := apply(t, r, entries)
	if got := reason(); got != "ResolvedRefs" {
		t.Errorf("%s with an entry", got)
	}
	if !slices.Contains(changed.GatewayAPI, routeKey) {
		t.Errorf("not told again: %v", changed.GatewayAPI)
	}
}
