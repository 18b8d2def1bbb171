package policy_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestAuthorized: explain names the AuthorizationPolicy of the gateway that decides, says what was asked, and what it does not know.
func TestAuthorized(t *testing.T) {
	const world = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: tls, port: 443}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: istio-system}
spec: {hosts: [a.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: shop, namespace: istio-system}
spec:
  selector: {matchLabels: {istio: egressgateway}}
  rules:
  - {from: [{source: {namespaces: [shop]}}]}
  - {from: [{source: {ipBlocks: [10.0.0.0/8], notNamespaces: [cart]}}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: admin, namespace: istio-system, annotations: {istio.io/dry-run: "true"}}
spec:
  targetRefs: [{kind: Service, name: istio-egressgateway}]
  action: DENY
  rules: [{to: [{operation: {paths: ["/admin*"], ports: ["80"]}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: neighbour, namespace: shop}
spec: {selector: {matchLabels: {istio: egressgateway}}}
`
	s := read(t, true, world)
	for _, c := range []struct {
		ns, url, address string
		allowed          bool
		by, would, says  string
	}{
		{"shop", "http://a.com/", "", true, "ServiceEntry istio-system/a", "", ""},
		{"shop", "https://a.com/", "", true, "ServiceEntry istio-system/a", "", ""},
		{"shop", "http://a.com/admin", "", true, "ServiceEntry istio-system/a", "admin", ""},
		{"other", "https://a.com/", "", false, "AuthorizationPolicy istio-system/shop", "", "not known here"},
		{"cart", "https://a.com/", "10.0.0.7", false, "AuthorizationPolicy istio-system/shop", "", "no rule that allows matches"},
		{"other", "https://a.com/", "10.0.0.7", true, "ServiceEntry istio-system/a", "", ""},
		{"other", "https://a.com/", "192.0.2.1", false, "AuthorizationPolicy istio-system/shop", "", ""},
	} {
		d, err := policy.ParseDestination(c.url)
		if err != nil {
			t.Fatal(err)
		}
		w := policy.Workload{Namespace: c.ns, Name: "app"}
		if c.address != "" {
			w.Address = netip.MustParseAddr(c.address)
		}
		v := policy.Decide(s, w, d)
		e := policy.Explain(w, d, v)
		if v.Allowed != c.allowed || v.DecidedBy.Key.String() != c.by || !strings.Contains(v.Reason, c.says) {
			t.Errorf("%+v: %t by %s: %s", c, v.Allowed, v.DecidedBy.Key, v.Reason)
		}
		if e.WouldDeny == nil {
			e.WouldDeny = &policy.DecidedBy{}
		}
		if e.WouldDeny.Name != c.would {
			t.Errorf("%+v: would deny %+v", c, e.WouldDeny)
		}
		if len(e.Authorization) == 0 || len(e.Policies) > 0 {
			t.Errorf("%+v: asked %+v", c, e)
		}
		if !c.allowed && e.Suggestion != "" {
			t.Errorf("%+v: suggests %s", c, e.Suggestion)
		}
	}
}
