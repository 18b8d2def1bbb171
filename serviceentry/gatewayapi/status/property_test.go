package status_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// told is all that is said of objects, and asked at gateways.
func told(s *registry.Snapshot, keys map[config.Key]*config.Object) map[string]any {
	out := map[string]any{}
	for key := range keys {
		if v, ok := status.Gateway(s, key); ok {
			out[key.String()] = v
		}
		if v, ok := status.Route(s, key); ok {
			out[key.String()] = v
		}
		if v, ok := status.BackendTLS(s, key); ok {
			out[key.String()] = v
		}
		if v, ok := status.ListenerSet(s, key); ok {
			out[key.String()] = v
		}
		if v, ok := status.Class(s, key); ok {
			out[key.String()] = v
		}
	}
	for _, ns := range []string{"a", "b", "c"} {
		host := registry.Ref{Namespace: ns, Name: "web"}.Host()
		for _, svc := range s.Services(host) {
			rule := s.SecuredRule(svc, nil, nil)
			far := s.UpstreamRestrictions(svc, rule, registry.Connector{Kind: registry.AtGateway, Namespace: ns})
			out["host "+host] = fmt.Sprintf("%+v %s", rule.TLSFor(80), far.Key()) + fmt.Sprint(s.Secured(registry.Ref{Namespace: ns, Name: "web"}).At("http"))
		}
	}
	for name := range s.Names() {
		list, gateways := s.Asking(name)
		text := fmt.Sprint(gateways)
		for _, v := range list {
			text += fmt.Sprintf(" %s %x", v.Key, v.Hash)
		}
		out["name "+name] = text
	}
	return out
}

// TestIncrementalIsFull: change by change comes to the same as all at once, and what is told differently is named.
func TestIncrementalIsFull(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	roots := registrytest.Pair(0).Certificate
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	text := func() string {
		ns := pick("a", "b", "c")
		switch random.IntN(13) {
		case 0:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: %s, namespace: %s}\nspec: {gatewayClassName: %s, allowedListeners: {namespaces: {from: %s}}, tls: {backend: {clientCertificateRef: {name: k, namespace: %s}}, frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: %s, name: k, namespace: %s}]}}}}, listeners: [{name: one, port: %s, protocol: HTTP, hostname: %q, allowedRoutes: {namespaces: {from: %s}}}, {name: two, port: 80, protocol: HTTPS, tls: {certificateRefs: [{name: k, namespace: %s}]}}, {name: three, port: 80, protocol: UDP}]}",
				pick("g", "h"), ns, pick("sallyport", "sallyport", "other"), pick("All", "All", "Same", "None", "Selector, selector: {matchLabels: {l: v}}"), pick("a", "b"), pick("ConfigMap", "Secret"), pick("a", "b"), pick("80", "8080"), pick("*.x.com", "a.x.com"), pick("All", "Same", "Selector, selector: {matchLabels: {l: v}}"), pick("a", "b"))
		case 1:
			return fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {l: %s}}", ns, pick("v", "w"))
		case 2:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: r, namespace: %s}\nspec: {from: [{group: gateway.networking.k8s.io, kind: %s, namespace: %s}], to: [{group: '', kind: %s}]}", ns, pick("Gateway", "HTTPRoute", "ListenerSet"), pick("a", "b"), pick("Secret", "Service", "ConfigMap"))
		case 3:
			return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: %s}\nspec: {clusterIP: 10.0.0.1, ports: [{name: http, port: %s}, {name: udp, port: %s, protocol: UDP}]}", ns, pick("80", "81"), pick("80", "82"))
		case 4:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: %s}\nspec: {controllerName: %s}", pick("sallyport", "other"), pick("egress.sallyport.io/gateway-controller", "some.one/else"))
		case 5:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: {parentRefs: [{group: '', kind: Service, name: web, namespace: %s%s}], rules: [{backendRefs: [{name: web, namespace: %s, port: 80}]}]}",
				pick("HTTPRoute", "HTTPRoute", "TCPRoute"), pick("t", "u"), ns, pick("a", "b", "c"), pick("", ", port: 80"), pick("a", "b"))
		case 6:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: %s, namespace: %s, creationTimestamp: '2026-01-0%sT00:00:00Z'}\nspec: {targetRefs: [{group: '', kind: Service, name: web%s}], validation: {hostname: x.com, caCertificateRefs: [{group: '', kind: %s, name: k}]}}",
				pick("p", "q"), ns, pick("1", "2", "3"), pick("", ", sectionName: http"), pick("ConfigMap", "Secret", "Other"))
		case 7:
			return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: k, namespace: %s}\ndata: {ca.crt: %q}", ns, pick("none", roots))
		case 8, 9:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: %s, namespace: %s, creationTimestamp: '2026-01-0%sT00:00:00Z'}\nspec: {parentRef: {name: %s, namespace: %s}, listeners: [{name: one, port: %s, protocol: HTTP, hostname: %s, allowedRoutes: {namespaces: {from: %s}}}, {name: two, port: 80, protocol: HTTPS, tls: {certificateRefs: [{name: k, namespace: %s}]}}, {name: three, port: 81, protocol: UDP}]}",
				pick("l", "m"), ns, pick("1", "2", "3"), pick("g", "h"), pick("a", "b"), pick("80", "8080", "9090"), pick("a.x.com", "y.com"), pick("All", "Same", "Selector, selector: {matchLabels: {l: v}}"), pick("a", "b"))
		case 10:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: UDPRoute\nmetadata: {name: %s, namespace: %s}\nspec: {parentRefs: [{name: %s, namespace: %s}], rules: [{backendRefs: [{name: web, namespace: %s, port: 80}]}]}",
				pick("r", "s"), ns, pick("g", "h", "l, kind: ListenerSet"), pick("a", "b", "c"), pick("a", "b"))
		case 11:
			return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: %s}\nspec: {%s action: %s}",
				pick("a", "b", "istio-system"), pick("", "selector: {matchLabels: {app: x}},", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}],"), pick("ALLOW", "AUDIT"))
		default:
			return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: %s, namespace: %s}\nspec: {parentRefs: [{name: %s, namespace: %s}], hostnames: [%q], rules: [{backendRefs: [{name: web, namespace: %s, port: 80}]}]}",
				pick("r", "s"), ns, pick("g", "h", "l, kind: ListenerSet", "m, kind: ListenerSet"), pick("a", "b", "c"), pick("a.x.com", "*.x.com", "y.com"), pick("a", "b"))
		}
	}
	objects := map[config.Key]*config.Object{}
	incremental := registry.New(settings())
	before := map[string]any{}
	for step := range registrytest.Times(2000) {
		f := decode.File("a.yaml", []byte(text()))
		if len(f.Objects) != 1 {
			t.Fatal(f.Findings)
		}
		c := config.Change{Key: f.Objects[0].Key, Object: &f.Objects[0]}
		if random.IntN(4) == 0 {
			c.Object = nil
		}
		if delete(objects, c.Key); c.Object != nil {
			objects[c.Key] = c.Object
		}
		s, changed := incremental.Apply([]config.Change{c})
		after := told(s, objects)
		for key := range objects {
			if cmp.Diff(before[key.String()], after[key.String()]) != "" && !slices.Contains(changed.GatewayAPI, key) {
				t.Fatalf("step %d, %s: what is told of %s differs, and it is not named: %v\n%s", step, c.Key, key, changed.GatewayAPI, cmp.Diff(before[key.String()], after[key.String()]))
			}
		}
		for _, ns := range []string{"a", "b", "c"} {
			host := registry.Ref{Namespace: ns, Name: "web"}.Host()
			if before["host "+host] != after["host "+host] && !slices.Contains(changed.Hosts, host) {
				t.Fatalf("step %d, %s: %s is reached otherwise, and is not named: %v, then %v", step, c.Key, host, before["host "+host], after["host "+host])
			}
		}
		if before = after; step%20 != 0 {
			continue
		}
		var all []config.Change
		for key, o := range objects {
			all = append(all, config.Change{Key: key, Object: o})
		}
		full, _ := registry.New(settings()).Apply(all)
		if d := cmp.Diff(told(full, objects), after); d != "" {
			t.Fatalf("step %d, %s (-full +incremental):\n%s", step, c.Key, d)
		}
	}
}
