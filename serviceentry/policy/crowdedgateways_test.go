package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// gatewayOfPorts is a Gateway for the pods of Service front/in, at the first of some ports.
func gatewayOfPorts(ns string, first, ports int, hosts string) string {
	var servers []string
	for p := first; p < first+ports; p++ {
		servers = append(servers, fmt.Sprintf("{port: {number: %d, name: http-%d, protocol: HTTP}, hosts: [%s]}", p, p, hosts))
	}
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: %s}\nspec: {selector: {istio: in}, servers: [%s]}\n", ns, strings.Join(servers, ", "))
}

// boundMany is a VirtualService for two Gateways that denies /secret, with so many matches in all.
func boundMany(host string, matches int) string {
	var rest []string
	for i := range matches - 2 {
		rest = append(rest, fmt.Sprintf("{uri: {exact: /%d}}", i))
	}
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: many, namespace: shop}
spec:
  hosts: [%q]
  gateways: [front/g, shop/g]
  http:
  - {match: [{uri: {prefix: /secret}}], directResponse: {status: 403}}
  - {match: [%s], route: [{destination: {host: web}}]}
  - {route: [{destination: {host: web}}]}
`, host, strings.Join(rest, ", "))
}

// TestCrowdedGateways: where a VirtualService comes to too many matches at the ports, or for the names, of a namespace's Gateways, nothing goes by it there, nor by another's
// pattern as far as there is a row, and what else there is goes on.
func TestCrowdedGateways(t *testing.T) {
	const around = `apiVersion: v1
kind: Service
metadata: {name: in, namespace: front}
spec: {type: LoadBalancer, clusterIP: 10.0.0.1, selector: {istio: in}, ports: [{name: a, port: 80}, {name: b, port: 81}, {name: c, port: 82}, {name: d, port: 83}, {name: e, port: 90}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.2, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: wide, namespace: shop}
spec: {hosts: ["*.shop.test"], gateways: [front/g, shop/g], http: [{route: [{destination: {host: web}}]}]}
`
	const open, closed, untold = "", "matches at the ports of Gateways of namespace front", "no route is for"
	for _, c := range []struct {
		ports, matches int
		hosts, host    string
		says           string
	}{
		{2, 4, "'*'", "a.shop.test", open}, // eight of them
		{2, 5, "'*'", "a.shop.test", closed},
		{3, 3, "'*'", "a.shop.test", ""}, // not even rows that say so: the wider one's
		{1, 4, "a.shop.test, b.shop.test", "*", open},
		{1, 5, "a.shop.test, b.shop.test", "*", closed},
		{1, 3, "a.shop.test, b.shop.test, c.other.test", "*", ""},
		{1, 3, "c.other.test, d.other.test, e.other.test", "*.other.test", untold},
	} {
		cfg := mesh.Default()
		name := "a.shop.test"
		if c.says == untold {
			name = "c.other.test"
		}
		texts := []string{around, gatewayOfPorts("front", 80, c.ports, c.hosts), gatewayOfPorts("shop", 90, 1, name), boundMany(c.host, c.matches)}
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}} {
			r := registry.New(&cfg).Bounded(2)
			for _, i := range order {
				applyText(t, r, texts[i], true)
			}
			ask := func(port int) policy.Explanation {
				return answer(t, r.Snapshot(), policy.Question{Gateway: "front/in", URL: fmt.Sprintf("http://%s:%d/", name, port)})
			}
			if e := ask(80); (e.Verdict == "allow") != (c.says == "") || !strings.Contains(e.Reason, c.says) || c.says != "" && e.DecidedBy.Name != "many" {
				t.Errorf("%+v: %+v", c, e)
			}
			if e := ask(90); e.Verdict != "allow" {
				t.Errorf("%+v: at another's Gateway: %+v", c, e)
			}
			applyText(t, r, gatewayOfPorts("front", 80, 1, name), true)
			if e := ask(80); e.Verdict != "allow" {
				t.Errorf("%+v: with fewer: %+v", c, e)
			}
		}
	}
}

// TestPortNobodyHas: where a Gateway opens a port that no Service of its pods has, it is said beside the verdict.
func TestPortNobodyHas(t *testing.T) {
	s := read(t, true, `
apiVersion: v1
kind: Service
metadata: {name: in, namespace: front}
spec: {type: LoadBalancer, clusterIP: 10.0.0.1, selector: {istio: in}, ports: [{name: a, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: front}
spec: {clusterIP: 10.0.0.2, selector: {app: web}, ports: [{name: http, port: 80}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: front}
spec: {hosts: [a.test], gateways: [g], http: [{route: [{destination: {host: web, port: {number: 80}}}]}]}
`, gatewayOfPorts("front", 80, 2, "a.test"))
	for port, says := range map[int]bool{80: false, 81: true} {
		e := answer(t, s, policy.Question{Gateway: "front/in", URL: fmt.Sprintf("http://a.test:%d/", port)})
		if e.Verdict != "allow" || strings.Contains(e.Reason, "no Service of the gateway's pods has port 81, which Gateway front/g opens") != says {
			t.Errorf("port %d: %+v", port, e)
		}
	}
}
