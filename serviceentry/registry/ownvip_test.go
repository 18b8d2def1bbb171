package registry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/sallyport/sallyport/config"
)

// TestSettleLooksWhereSomethingTurned: after a change those namespaces are looked at again whose addresses are others, however they came to be so; and none for the sake of
// what the root namespace registers, whose addresses are apart.
func TestSettleLooksWhereSomethingTurned(t *testing.T) {
	const namespaces, hosts, root = 12, 6000, "root"
	r := rand.New(rand.NewPCG(1, 2))
	m, list := newMadeUp(), map[string][]*Service{}
	change := func(ns, host string) {
		was := list[host]
		var now []*Service
		for _, s := range was {
			if s.Namespace != ns {
				now = append(now, s)
			}
		}
		if len(now) == len(was) {
			now = append(now, &Service{Host: host, Namespace: ns, Source: config.Key{Kind: config.KindServiceEntry, Namespace: ns, Name: host}, Resolution: DNS, Traits: &Traits{}})
		}
		list[host] = now
		m.claim(host, root, was, now)
	}
	settle := func() map[string]bool {
		_, again := m.settle(func(host string) []*Service { return list[host] })
		return again
	}
	for i := range hosts {
		change(fmt.Sprintf("ns-%d", r.IntN(namespaces)), fmt.Sprintf("host-%d", i))
	}
	settle()
	if len(m.apart) < namespaces/2 {
		t.Fatalf("%d namespaces see something apart", len(m.apart))
	}
	looked := 0
	for i := range 400 {
		was := map[string]map[string]uint32{}
		for n := range namespaces {
			ns := fmt.Sprintf("ns-%d", n)
			was[ns] = m.view(ns)
		}
		ns := fmt.Sprintf("ns-%d", r.IntN(namespaces))
		if rooted := i%3 == 0; rooted {
			ns = root
		}
		change(ns, fmt.Sprintf("host-%d", r.IntN(2*hosts)))
		again := settle()
		looked += len(again)
		for ns, view := range was {
			if !again[ns] && !maps.Equal(view, m.view(ns)) {
				t.Fatalf("%s sees other addresses, and is not looked at", ns)
			}
		}
		change(root, fmt.Sprintf("root-%d", i))
		if again := settle(); len(again) > 0 {
			t.Fatalf("%v are looked at for a host of the root namespace that no other has", again)
		}
	}
	if most := 400 * namespaces / 2; looked > most {
		t.Errorf("namespaces were looked at %d times, want %d at most", looked, most)
	}
}
