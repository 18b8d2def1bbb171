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
	fits, over := name(238, "long.example"), name(239, "long.example")
	entries := wild + `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: long, namespace: shop}
spec: {hosts: [` + fits + `, ` + over + `], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
`
	for _, c := range []struct {
		url    string
		reason string // "": it is allowed
	}{
		{"https://" + fits, ""}, {"https://" + over, "at most 238"}, {"http://" + over, ""},
		{"https://" + name(238, "wild.example"), ""}, {"https://" + name(239, "wild.example"), "at most 238"},
	} {
		v := policy.Decide(readFor(t, false, false, shop, entries), policy.Workload{Namespace: "shop"}, parse(t, c.url))
		if v.Allowed != (c.reason == "") || !strings.Contains(v.Reason, c.reason) {
			t.Errorf("%s: %+v", c.url, v)
		}
	}
}
