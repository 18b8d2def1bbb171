package registry_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// nameless is an entry whose host gets an address made up, of that age.
func nameless(ns, name string, age int) config.Change {
	o := &config.Object{
		Key: config.Key{Kind: config.KindServiceEntry, Namespace: ns, Name: name}, Created: time.Unix(int64(age), 0), Hash: uint64(age),
		Spec: &networking.ServiceEntry{
			Hosts: []string{name + ".example.com"}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
			Ports: []*networking.ServicePort{{Number: 443, Name: "tls", Protocol: "TLS"}},
		},
	}
	return config.Change{Key: o.Key, Object: o}
}

// madeUp is everybody's made-up address of each host.
func madeUp(s *registry.Snapshot) map[string]netip.Addr {
	out := map[string]netip.Addr{}
	for host, list := range s.Hosts() {
		out[host] = list[0].VIP4()
	}
	return out
}

// TestNewHostMovesNobody holds that a new host takes nobody's made-up address, however full the range is: one of the root namespace
// is looked at alone, and one of another moves nobody in everybody's eyes.
func TestNewHostMovesNobody(t *testing.T) {
	const hosts, more = 8000, 60
	cfg := mesh.Default()
	var all []config.Change
	for i := range hosts {
		ns := fmt.Sprintf("ns-%d", i%20)
		if i%4 == 0 {
			ns = cfg.RootNamespace
		}
		all = append(all, nameless(ns, fmt.Sprintf("host-%d", i), 1+i))
	}
	r := registry.New(&cfg)
	s, _ := r.Apply(all)
	for i := range more {
		for _, ns := range []string{cfg.RootNamespace, "ns-3"} {
			was := madeUp(s)
			var changed registry.Changed
			name := fmt.Sprintf("new-%d-of-%s", i, ns)
			s, changed = r.Apply([]config.Change{nameless(ns, name, hosts+1+i)})
			if want := []string{name + ".example.com"}; ns == cfg.RootNamespace && !slices.Equal(changed.Hosts, want) {
				t.Fatalf("a new host of %s changed %v", ns, changed.Hosts)
			}
			now := madeUp(s)
			for host, at := range was {
				if now[host] != at {
					t.Fatalf("%s has the address %s and not %s, since %s is there", host, now[host], at, name)
				}
			}
		}
	}
}

// TestFullHalf holds that a half of the range which is full leaves those that come last without an address, and the other half alone;
// and that the order in which they came, and who left meanwhile, makes no difference.
func TestFullHalf(t *testing.T) {
	const most, more = 30719, 300
	cfg := mesh.Default()
	var all []config.Change
	for i := range most + more {
		all = append(all, nameless(cfg.RootNamespace, fmt.Sprintf("host-%d", i), 1+i))
	}
	all = append(all, nameless("ns-1", "other", 1))
	r := registry.New(&cfg)
	s, _ := r.Apply(all)
	want := madeUp(s)
	for i := range most + more {
		host := fmt.Sprintf("host-%d.example.com", i)
		if at := want[host]; at.IsValid() != (i < most) {
			t.Fatalf("%s has the address %s, where the first %d have one", host, at, most)
		}
	}
	if !want["other.example.com"].IsValid() {
		t.Fatal("the host of another namespace has no address")
	}

	mixed := slices.Clone(all)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	r = registry.New(&cfg)
	for part := range slices.Chunk(mixed, 4000) {
		r.Apply(part)
	}
	var left []config.Change
	for _, i := range []int{0, 7, most - 1, most + 1} { // the last one waits
		left = append(left, nameless(cfg.RootNamespace, fmt.Sprintf("host-%d", i), 1+i))
	}
	for _, o := range left {
		s, _ = r.Apply([]config.Change{{Key: o.Key}})
	}
	if waited := fmt.Sprintf("host-%d.example.com", most); !madeUp(s)[waited].IsValid() {
		t.Fatalf("%s has no address, though others left", waited)
	}
	for _, o := range left {
		s, _ = r.Apply([]config.Change{o})
	}
	if now := madeUp(s); !maps.Equal(now, want) {
		for host, at := range want {
			if now[host] != at {
				t.Fatalf("%s has the address %s, and %s when all came in their order", host, now[host], at)
			}
		}
	}
}
