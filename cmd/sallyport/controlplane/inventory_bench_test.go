package controlplane

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/mesh"
)

// BenchmarkCheck is what one question of the API server costs in a mesh of many entries.
func BenchmarkCheck(b *testing.B) {
	v := newInventory()
	entry := func(i int) serviceentry.Object {
		return serviceentry.Object{
			Key: serviceentry.Key{Kind: serviceentry.KindServiceEntry, Namespace: fmt.Sprintf("ns-%d", i%100), Name: fmt.Sprintf("e-%d", i)},
			Spec: &networking.ServiceEntry{
				Hosts: []string{fmt.Sprintf("h-%d.test", i)}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
				Ports: []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}},
			},
		}
	}
	var changes []serviceentry.Change
	for i := range 10_000 {
		o := entry(i)
		changes = append(changes, serviceentry.Change{Key: o.Key, Object: &o})
	}
	v.apply(changes)
	b.ReportAllocs()
	for b.Loop() {
		v.check(entry(77), mesh.Default())
	}
}
