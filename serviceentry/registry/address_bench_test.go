package registry_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// BenchmarkSharedAddress is an entry of 1,000 hosts with one address: what a change of it costs, with the question
// which of its addresses each host has.
func BenchmarkSharedAddress(b *testing.B) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	spec := &networking.ServiceEntry{
		Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS, Addresses: []string{"203.0.113.7"},
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 5432, Name: "pg", Protocol: "TCP"}},
	}
	for i := range 1000 {
		spec.Hosts = append(spec.Hosts, fmt.Sprintf("h-%d.test", i))
	}
	key := config.Key{Kind: config.KindServiceEntry, Namespace: "team", Name: "many"}
	version := uint64(0)
	for b.Loop() {
		version++
		spec.Ports[1].Number = 5432 + uint32(version%2)
		s, changed := r.Apply([]config.Change{{Key: key, Object: &config.Object{Key: key, Hash: version, Spec: spec}}})
		for _, host := range changed.Hosts {
			if svc := s.Visible(host, "team", nil); svc != nil {
				s.LostAddresses(svc, "team", nil)
			}
		}
	}
}
