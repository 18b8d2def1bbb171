package policy_test

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// wild are hosts by a pattern, and one that only its own namespace sees.
const wild = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: shop}
spec: {hosts: ["*.wild.example"], location: MESH_EXTERNAL, resolution: DYNAMIC_DNS, ports: [{number: 443, name: https, protocol: HTTPS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own, namespace: shop}
spec: {hosts: [own.example], exportTo: ["."], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: https, protocol: HTTPS}]}
`

func TestDecideName(t *testing.T) {
	closed, open := readFor(t, false, false, shop, wild), readFor(t, true, false, shop, wild)
	for _, tt := range []struct {
		namespace, name string
		closed          bool // it is answered under REGISTRY_ONLY
	}{
		{"shop", "ext.example", true}, {"shop", "own.example", true}, {"other", "own.example", false}, {"shop", "a.b.wild.example", true}, {"shop", "wild.example", false},
		{"shop", "nobody.example", false}, {"shop", "sub.ext.example", false}, {"shop", "web.shop.svc.cluster.local", true}, {"shop", "any.cluster.local", true},
		{"shop", "ext.shop.svc.cluster.local", true}, {"shop", "ext.shop", false}, {"shop", "xcluster.local", false},
	} {
		w := policy.Workload{Namespace: tt.namespace}
		if v := policy.DecideName(closed, w, tt.name); v.Allowed != tt.closed || v.Reason == "" || v.DecidedBy.Kind == "" {
			t.Errorf("%s in %s: %+v", tt.name, tt.namespace, v)
		}
		if v := policy.DecideName(open, w, tt.name); !v.Allowed {
			t.Errorf("%s in %s under ALLOW_ANY: %+v", tt.name, tt.namespace, v)
		}
	}
	refuses := *open.Mesh
	refuses.DNS.Unregistered = mesh.Refuse
	open.Mesh = &refuses
	if v := policy.DecideName(open, policy.Workload{Namespace: "shop"}, "nobody.example"); v.Allowed || v.DecidedBy.Kind != "MeshConfig" {
		t.Errorf("refused under ALLOW_ANY: %+v", v)
	}
}

// TestDialled: the address that was connected to counts where DNS would have given another one, or none.
func TestDialled(t *testing.T) {
	s := readFor(t, false, false, shop)
	from := policy.Workload{Namespace: "shop"}
	d := parse(t, "tcp://net.example:6000")
	if v := policy.Decide(s, from, d); v.Allowed {
		t.Errorf("a range's host has no address of its own: %+v", v)
	}
	if d.Dialled = netip.MustParseAddr("192.0.2.9"); !policy.Decide(s, from, d).Allowed {
		t.Errorf("dialled within the range: %+v", policy.Decide(s, from, d))
	}
	d = parse(t, "https://foreign.example:443")
	if d.Dialled = netip.MustParseAddr("10.96.0.1"); !policy.Decide(s, from, d).Allowed {
		t.Errorf("another name at a service's address: %+v", policy.Decide(s, from, d))
	}
}

// TestUnknown: what nobody knows is noted only where something depends on it.
func TestUnknown(t *testing.T) {
	s := readFor(t, false, false, shop, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ext, namespace: shop}
spec:
  hosts: [ext.example]
  http:
  - {match: [{uri: {prefix: /a}, headers: {x-a: {exact: b}}}], directResponse: {status: 503}}
  - {match: [{uri: {exact: /q}, queryParams: {x: {exact: "1"}}}], directResponse: {status: 503}}
  - {match: [{uri: {prefix: /}}], route: [{destination: {host: ext.example}}]}
`)
	for _, tt := range []struct {
		path string
		not  route.Unknown
		want string
	}{
		{"/", route.Unknown{Headers: true, Query: true}, ""}, {"/a/b", route.Unknown{Headers: true}, "the header x-a"}, {"/a/b", route.Unknown{Query: true}, ""},
		{"/q", route.Unknown{Query: true, Headers: true}, "the query"}, {"/", route.Unknown{Path: true}, "the path"},
	} {
		d, not := parse(t, "http://ext.example"+tt.path), tt.not
		d.Unknown = &not
		if policy.Decide(s, policy.Workload{Namespace: "shop"}, d); not.Asked != tt.want {
			t.Errorf("%s, not knowing %+v: %q is asked for, want %q", tt.path, tt.not, not.Asked, tt.want)
		}
	}
}
