package controlplane

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// BenchmarkCheck is what one question of the API server costs in a mesh of many entries.
func BenchmarkCheck(b *testing.B) {
	v := newInventory()
	entry := func(i int) config.Object {
		return config.Object{
			Key: config.Key{Kind: config.KindServiceEntry, Namespace: fmt.Sprintf("ns-%d", i%100), Name: fmt.Sprintf("e-%d", i)},
			Spec: &networking.ServiceEntry{
				Hosts: []string{fmt.Sprintf("h-%d.test", i)}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
				Ports: []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}},
			},
		}
	}
	var changes []config.Change
	for i := range 10_000 {
		o := entry(i)
		changes = append(changes, config.Change{Key: o.Key, Object: &o})
	}
	v.apply(changes)
	b.ReportAllocs()
	for b.Loop() {
		v.check(entry(77), mesh.Default())
	}
}
