package status_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const egressGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: out, namespace: infra}
spec:
  gatewayClassName: sallyport-egress
  addresses: [{type: Hostname, value: egress.infra.svc.cluster.local}]
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
  - {name: ends, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
  - {name: bytes, port: 5432, protocol: TCP}
  - {name: own, port: 8080, protocol: HTTP}
`

const egressService = `
apiVersion: v1
kind: Service
metadata: {name: egress, namespace: infra}
spec: {clusterIP: 10.0.0.3, selector: {app: egress}, ports: [{name: https, port: 443}]}
`

const egressRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: shop}
spec:
  parentRefs: [{name: out, namespace: infra, sectionName: http}]
  hostnames: [api.test]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: api.test, port: 443}]}]
`

var egressKey = config.Key{Kind: config.KindKubeGateway, Namespace: "infra", Name: "out"}

// TestEgressGateway: it is programmed where its Service is, and serves HTTP and TLS that passes.
func TestEgressGateway(t *testing.T) {
	r := registry.New(settings())
	snap, _ := apply(t, r, egressGateway)
	told, ours := status.Gateway(snap, egressKey)
	if !ours || told.Conditions[0].Status != "True" || told.Conditions[1].Reason != "AddressNotUsable" || len(told.Addresses) != 0 {
		t.Errorf("without its Service: %+v", told)
	}
	snap, changed := apply(t, r, egressService)
	if told, _ = status.Gateway(snap, egressKey); told.Conditions[1].Status != "True" || len(told.Addresses) != 1 || told.Addresses[0].Value != "egress.infra.svc.cluster.local" {
		t.Errorf("with its Service: %+v", told)
	}
	if !slices.Contains(changed.GatewayAPI, egressKey) {
		t.Errorf("it is not told again that its Service is there: %v", changed.GatewayAPI)
	}
	for i, reason := range []string{"Accepted", "Accepted", "UnsupportedProtocol", "UnsupportedProtocol", "Accepted"} {
		if got := told.Listeners[i].Conditions[0].Reason; got != reason {
			t.Errorf("listener %s: %s, want %s", told.Listeners[i].Name, got, reason)
		}
	}
	for from, to := range map[string]string{
		"{type: Hostname, value: egress.infra.svc.cluster.local}": "{type: IPAddress, value: 203.0.113.4}",
		"value: egress.infra.svc.cluster.local":                   "value: egress.example.com",
		"addresses: [{":                                           "addresses: [{type: Hostname, value: egress.infra.svc.cluster.local}, {",
	} {
		snap, _ = apply(t, registry.New(settings()), egressService+"---"+strings.Replace(egressGateway, from, to, 1))
		if told, _ = status.Gateway(snap, egressKey); told.Conditions[0].Reason != "UnsupportedAddress" {
			t.Errorf("%s: %+v", to, told.Conditions)
		}
	}
}

// TestEgressRoute: what a route at an egress Gateway says of hosts outside is accepted, or why not.
func TestEgressRoute(t *testing.T) {
	for _, c := range []struct{ from, to, accepted, resolved, message string }{
		{"", "", "Accepted", "ResolvedRefs", ""},
		{"name: api.test, port: 443", "name: api.test, port: 8081", "Accepted", "ResolvedRefs", ""},
		{"hostnames: [api.test]", `hostnames: ["*.api.test"]`, "Accepted", "BackendNotFound", "namespace shop sees"},
		{"hostnames: [api.test]", "hostnames: [other.test]", "Accepted", "BackendNotFound", "write a ServiceEntry"},
		{"name: api.test, port: 443", "name: external.com, port: 80", "Accepted", "RefNotPermitted", "egress gateway"},
		{"name: api.test, port: 443", "name: web.shop.svc.cluster.local, port: 80", "Accepted", "RefNotPermitted", "inside of the mesh"},
		{"name: api.test, port: 443", "name: api.test", "Accepted", "UnsupportedValue", "without a port"},
		{"{group: networking.istio.io, kind: Hostname, name: api.test, port: 443}", "{name: web, port: 80}", "Accepted", "InvalidKind", "name a Hostname"},
		{"hostnames: [api.test]", "hostnames: [web.shop.svc.cluster.local]", "UnsupportedValue", "", "inside of the mesh"},
		{"hostnames: [api.test]", "hostnames: [10.0.0.1]", "UnsupportedValue", "", ""},
		{"  hostnames: [api.test]\n", "", "UnsupportedValue", "", "write them"},
		{"sectionName: http", "sectionName: own", "NotAllowedByListeners", "", ""},
		{"sectionName: http", "sectionName: tls", "NotAllowedByListeners", "", ""},
	} {
		text := strings.Replace(egressRoute, c.from, c.to, 1)
		snap, _ := apply(t, registry.New(settings()), service+"---"+egressService+"---"+egressGateway+"---"+entries+"---"+text)
		s, _ := status.Route(snap, routeKey)
		if len(s.Parents) != 1 {
			t.Fatalf("%q: %+v", c.to, s)
		}
		accepted, resolved := s.Parents[0].Conditions[0], s.Parents[0].Conditions[1]
		if accepted.Reason != c.accepted || c.resolved != "" && resolved.Reason != c.resolved || !strings.Contains(accepted.Message+resolved.Message, c.message) {
			t.Errorf("%q: %s %s, want %s %s %q: %q %q", c.to, accepted.Reason, resolved.Reason, c.accepted, c.resolved, c.message, accepted.Message, resolved.Message)
		}
		if svc := snap.Visible("api.test", "shop", nil); (svc != nil) != (accepted.Status == "True" && strings.Contains(text, "[api.test]")) {
			t.Errorf("%q: registered as %+v", c.to, svc)
		}
	}
}

// TestEgressRoutesComeAndGo: what a route lets out follows its Gateway and the mesh's own egress gateway, in whatever order they come.
func TestEgressRoutesComeAndGo(t *testing.T) {
	own := strings.Replace(egressGateway, "  addresses: [{type: Hostname, value: egress.infra.svc.cluster.local}]\n", "", 1)
	for _, batches := range [][]string{{own, egressRoute}, {egressRoute, own}, {own + "---" + egressRoute}} {
		r := registry.New(settings())
		snap, changed := apply(t, r, batches...)
		svc := snap.Visible("api.test", "shop", nil)
		if svc == nil || svc.Exit != (registry.Ref{Namespace: "istio-system", Name: "istio-egressgateway"}) || svc.Source != routeKey || !slices.Contains(changed.Hosts, "api.test") {
			t.Fatalf("%+v, %v", svc, changed.Hosts)
		}
		if list := snap.EgressRoutes(svc, svc.Exit); len(list) != 1 || snap.Attached("infra/out/http") != 1 {
			t.Errorf("routes %v, %d attached", list, snap.Attached("infra/out/http"))
		}
		mesh := settings()
		mesh.DefaultGateway.Name = "another"
		snap, changed = r.SetMesh(mesh)
		if svc = snap.Visible("api.test", "shop", nil); svc == nil || svc.Exit.Name != "another" || len(snap.EgressRoutes(svc, svc.Exit)) != 1 || !slices.Contains(changed.Hosts, "api.test") {
			t.Errorf("by another gateway: %+v", svc)
		}
		snap, changed = r.Apply([]config.Change{{Key: egressKey}})
		if svc := snap.Visible("api.test", "shop", nil); svc != nil || !slices.Contains(changed.Hosts, "api.test") {
			t.Errorf("without the Gateway: %+v", svc)
		}
	}
}
