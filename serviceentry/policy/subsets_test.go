package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestTooManySubsetsCountForNone: where a rule's subsets come to too much with what an entry registers, what leads to one goes nowhere, and all else goes on.
func TestTooManySubsetsCountForNone(t *testing.T) {
	subsets := make([]string, 256)
	for i := range subsets {
		subsets[i] = fmt.Sprintf("{name: s%d}", i)
	}
	const routes = `
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: shop}
spec:
  hosts: [h0.multi.test]
  http:
  - {match: [{uri: {prefix: /one}}], route: [{destination: {host: h0.multi.test, subset: s7}}]}
  - {route: [{destination: {host: h0.multi.test}}]}
`
	for hosts, counts := range map[int]bool{100: true, 256: false} {
		names := make([]string, hosts)
		for i := range names {
			names[i] = fmt.Sprintf("h%d.multi.test", i)
		}
		s := readFor(t, false, false, fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: multi, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 8080, name: more, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: multi, namespace: shop}
spec: {host: "*.multi.test", subsets: [%s]}
`, strings.Join(names, ", "), strings.Join(subsets, ", "))+routes)
		from := policy.Workload{Namespace: "shop", Name: "app"}
		v := policy.Decide(s, from, parse(t, "http://h0.multi.test/one"))
		if v.Allowed != counts || !counts && (!strings.Contains(v.Reason, "131584") || !strings.Contains(v.Reason, "DestinationRule shop/multi")) {
			t.Errorf("%d hosts, a subset: %+v", hosts, v)
		}
		if v := policy.Decide(s, from, parse(t, "http://h0.multi.test/all")); !v.Allowed {
			t.Errorf("%d hosts, all endpoints: %+v", hosts, v)
		}
	}
}
