package registry_test

import (
	"fmt"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestCrowdingCostsWhatChanges: a host below a pattern touches itself, and all of its namespace only where they are too many with it, or no longer are.
func TestCrowdingCostsWhatChanges(t *testing.T) {
	const most = 5
	cfg := mesh.Default()
	r := registry.New(&cfg).Bounded(most)
	put := func(kind config.Kind, ns, name string, hash uint64, spec any) []string {
		key := config.Key{Kind: kind, Namespace: ns, Name: name}
		c := config.Change{Key: key}
		if spec != nil {
			c.Object = &config.Object{Key: key, Hash: hash, Spec: spec, Annotations: map[string]string{registry.GatewayAnnotation: registry.ExitDirect}}
		}
		_, changed := r.Apply([]config.Change{c})
		return changed.Hosts
	}
	host := func(ns string, i int) string { return fmt.Sprintf("h%d.%s.many.test", i, ns) }
	entry := func(ns string, i int) *networking.ServiceEntry {
		return &networking.ServiceEntry{
			Hosts: []string{host(ns, i)}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
			Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		}
	}
	routes := func(ns string, hosts ...string) {
		put(config.KindVirtualService, ns, "v", 1, &networking.VirtualService{Hosts: hosts, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "end.test"}}}}}})
	}
	routes("shop", "*.many.test", "*.other.test")
	routes("near", "*.many.test")
	for i := range 2 * most {
		for _, ns := range []string{"shop", "near"} {
			want := []string{host(ns, i)}
			if i == most {
				for j := range most {
					want = append(want, host(ns, j))
				}
			}
			slices.Sort(want)
			if touched := put(config.KindServiceEntry, ns, fmt.Sprint("e", i), 1, entry(ns, i)); !slices.Equal(touched, want) {
				t.Errorf("%s's host %d touches %v, want %v", ns, i, touched, want)
			}
		}
	}
	for i := 2*most - 1; i >= 0; i-- {
		want := []string{host("shop", i)}
		if i == most {
			for j := range most {
				want = append(want, host("shop", j))
			}
		}
		slices.Sort(want)
		if touched := put(config.KindServiceEntry, "shop", fmt.Sprint("e", i), 0, nil); !slices.Equal(touched, want) {
			t.Errorf("without host %d: %v, want %v", i, touched, want)
		}
	}
	svc := func(ns string) *registry.Service { return r.Snapshot().Services(host(ns, 0))[0] }
	if by, why, crowded := r.Snapshot().CrowdedBy(svc("near")); !crowded || by.Namespace != "near" {
		t.Errorf("near is crowded by %v %q", by, why)
	}
	put(config.KindVirtualService, "near", "v", 0, nil)
	if by, why, crowded := r.Snapshot().CrowdedBy(svc("near")); crowded {
		t.Errorf("near is crowded by %v %q, which is gone", by, why)
	}
}
