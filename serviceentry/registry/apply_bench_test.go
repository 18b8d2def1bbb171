package registry_test

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// entry is a ServiceEntry with an HTTP and a TLS port; version makes its hash.
func entry(i int, version uint64) config.Change {
	o := &config.Object{
		Key: config.Key{Kind: config.KindServiceEntry, Namespace: fmt.Sprintf("ns-%d", i%50), Name: fmt.Sprintf("e-%d", i)},
		Spec: &networking.ServiceEntry{
			Hosts: []string{fmt.Sprintf("api.service-%d.example.com", i)}, Location: networking.ServiceEntry_MESH_EXTERNAL,
			Resolution: networking.ServiceEntry_DNS,
			Ports:      []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 443, Name: "tls", Protocol: "TLS"}},
			Addresses:  []string{fmt.Sprintf("198.%d.%d.%d", 18+version%2, i>>8, i&255)}, // its own: hosts that share one change together
		},
		Hash: version<<32 | uint64(i),
	}
	return config.Change{Key: o.Key, Object: o}
}

func entries(n int) []config.Change {
	var all []config.Change
	for i := range n {
		all = append(all, entry(i, 0))
	}
	return all
}

// BenchmarkFill takes a whole mesh at once.
func BenchmarkFill(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			all, cfg := entries(n), mesh.Default()
			b.ReportAllocs()
			for b.Loop() {
				registry.New(&cfg).Apply(all)
			}
		})
	}
}

// BenchmarkApply takes one changed ServiceEntry.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			cfg := mesh.Default()
			r := registry.New(&cfg)
			r.Apply(entries(n))
			b.ReportAllocs()
			for i := uint64(1); b.Loop(); i++ {
				if _, changed := r.Apply([]config.Change{entry(7, i)}); len(changed.Hosts) != 1 {
					b.Fatalf("%d hosts changed", len(changed.Hosts))
				}
			}
		})
	}
}
