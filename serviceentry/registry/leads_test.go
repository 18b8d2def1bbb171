package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// leading is an entry of the mesh with so many hosts and endpoints, at 10.BLOCK.0.0 and on; younger ones have higher ages.
func leading(name string, age, hosts, endpoints, block int) config.Change {
	spec := &networking.ServiceEntry{
		Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Ports: []*networking.ServicePort{{Number: 8080, Name: "http", Protocol: "HTTP"}},
	}
	for i := range hosts {
		spec.Hosts = append(spec.Hosts, fmt.Sprintf("h-%d.%s.test", i, name))
	}
	for i := range endpoints {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: fmt.Sprintf("10.%d.%d.%d", block, i/256, i%256)})
	}
	key := config.Key{Kind: config.KindServiceEntry, Namespace: "team", Name: name}
	return config.Change{Key: key, Object: &config.Object{
		Key: key, Created: time.Unix(int64(age), 0), Hash: uint64(age)<<40 | uint64(hosts)<<20 | uint64(endpoints) | uint64(block)<<60, Spec: spec,
	}}
}

// TestLeadsAreBounded: a namespace's entries lead to its pods as far as they are not too many; the youngest say nothing, and say so, until there is room.
func TestLeadsAreBounded(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	half := registry.MostLeads/2 + 1
	older, younger := leading("older", 1, 1, half, 1), leading("younger", 2, 1, half, 2)
	beyond := func(s *registry.Snapshot) string {
		var out []string
		for _, c := range []config.Change{older, younger} {
			at := map[string]string{"older": "10.1.0.7", "younger": "10.2.0.7"}[c.Key.Name]
			led := strings.Contains(string(s.Inbound("team", nil, at)), "8080/HTTP")
			if led == s.Beyond(c.Key) && led {
				t.Errorf("%s is beyond, and leads", c.Key.Name)
			}
			if led {
				out = append(out, c.Key.Name)
			}
		}
		return fmt.Sprint(out)
	}
	s, changed := r.Apply([]config.Change{younger})
	if got := beyond(s); got != "[younger]" || !slices.Equal(changed.Arriving, []string{"team"}) {
		t.Errorf("alone %s leads; named are %q", got, changed.Arriving)
	}
	s, changed = r.Apply([]config.Change{older})
	if got := beyond(s); got != "[older]" || !s.Beyond(younger.Key) || !slices.Contains(changed.Hosts, "h-0.younger.test") {
		t.Errorf("with both %s lead; touched are %q", got, changed.Hosts)
	}
	s, changed = r.Apply([]config.Change{{Key: older.Key}})
	if got := beyond(s); got != "[younger]" || s.Beyond(younger.Key) || !slices.Contains(changed.Hosts, "h-0.younger.test") {
		t.Errorf("without the older one %s leads; touched are %q", got, changed.Hosts)
	}
	if s, _ = r.Apply([]config.Change{{Key: younger.Key}}); beyond(s) != "[]" {
		t.Error("what is gone leads still")
	}
}

// BenchmarkLeads is a change of an entry of 100 hosts and 1,000 endpoints, which lead to pods, beside 20 others of the same addresses.
func BenchmarkLeads(b *testing.B) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	var all []config.Change
	for i := range 20 {
		all = append(all, leading(fmt.Sprint("other-", i), i+10, 100, 1000, 1))
	}
	r.Apply(all)
	n := 0
	for b.Loop() {
		n++
		r.Apply([]config.Change{leading("one", 5, 100, 1000-n%2, 1)})
	}
}
