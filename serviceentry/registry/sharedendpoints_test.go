package registry_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestSelectedEndpointsAreShared: entries that select the same workloads have one list of them, also where they came one after the other.
func TestSelectedEndpointsAreShared(t *testing.T) {
	const many = 50
	cfg := mesh.Default()
	r := registry.New(&cfg)
	put := func(kind config.Kind, name string, spec any) (s *registry.Snapshot) {
		key := config.Key{Kind: kind, Namespace: "shop", Name: name}
		o := &config.Object{Key: key, Hash: 1, Spec: spec}
		s, _ = r.Apply([]config.Change{{Key: key, Object: o}})
		return s
	}
	entry := func(i int, location networking.ServiceEntry_Location) *networking.ServiceEntry {
		return &networking.ServiceEntry{
			Hosts: []string{fmt.Sprintf("h%d.test", i)}, Location: location, Resolution: networking.ServiceEntry_STATIC,
			WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "a"}}, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		}
	}
	var s *registry.Snapshot
	for i := range many {
		put(config.KindWorkloadEntry, fmt.Sprint("w", i), &networking.WorkloadEntry{Address: fmt.Sprintf("198.51.100.%d", i), Labels: map[string]string{"app": "a"}})
		s = put(config.KindServiceEntry, fmt.Sprint("e", i), entry(i, networking.ServiceEntry_MESH_INTERNAL))
	}
	lists := func(s *registry.Snapshot, want int) int {
		t.Helper()
		lists := map[*registry.Endpoint]bool{}
		for _, services := range s.Hosts() {
			for _, svc := range services {
				if len(svc.Endpoints) != want {
					t.Errorf("%s has %d endpoints, want %d", svc.Host, len(svc.Endpoints), want)
				}
				lists[&svc.Endpoints[0]] = true
			}
		}
		return len(lists)
	}
	if n := lists(s, many); n != 1 {
		t.Errorf("%d lists for %d entries that select alike", n, many)
	}
	s = put(config.KindServiceEntry, "outside", entry(many, networking.ServiceEntry_MESH_EXTERNAL))
	if n := lists(s, many); n != 2 {
		t.Errorf("%d lists, want another one for what is outside the mesh", n)
	}
	s, _ = r.Apply([]config.Change{{Key: config.Key{Kind: config.KindWorkloadEntry, Namespace: "shop", Name: "w7"}}})
	if n := lists(s, many-1); n != 2 {
		t.Errorf("%d lists after a workload went", n)
	}
}
