package policy_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestDecideTooLong: names that do not fit into the way to a gateway are denied as far as connections are concerned, and say why.
func TestDecideTooLong(t *testing.T) {
	name := func(n int, tail string) string { // of n bytes
		labels := strings.Repeat(strings.Repeat("a", 59)+".", 5)
		return "b" + labels[len(labels)-(n-len(tail)-1):] + tail
	}
	fits, over := name(234, "long.example"), name(235, "long.example") // beside "shop"
	entries := wild + `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: long, namespace: shop}
spec: {hosts: [` + fits + `, ` + over + `], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
`
	const neighbour = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: all, namespace: neighbour}
spec: {hosts: ["*.example"], location: MESH_EXTERNAL, ports: [{number: 443, name: tls, protocol: TLS}]}
`
	for _, c := range []struct {
		url    string
		reason string // "": it is allowed
	}{
		{"https://" + fits, ""}, {"https://" + over, "at most 234"}, {"http://" + over, ""},
		{"https://" + name(238, "wild.example"), ""}, {"https://" + name(239, "wild.example"), "at most 238"},
	} {
		v := policy.Decide(readFor(t, false, false, shop, entries), policy.Workload{Namespace: "shop"}, parse(t, c.url))
		if v.Allowed != (c.reason == "") || !strings.Contains(v.Reason, c.reason) {
			t.Errorf("%s: %+v", c.url, v)
		}
		if strings.Contains(c.url, "wild.example") {
			continue // a pattern's hosts are known when they are asked for
		}
		if beside := policy.Decide(readFor(t, false, false, shop, entries+neighbour), policy.Workload{Namespace: "shop"}, parse(t, c.url)); beside.Allowed != v.Allowed {
			t.Errorf("%s beside a neighbour's pattern: %+v", c.url, beside)
		}
	}
}
