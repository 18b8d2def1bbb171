package registry_test

import (
	"net/netip"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// who is somebody who asks a snapshot.
type who struct {
	ns    string
	scope *registry.SidecarScope
}

func (w who) sees(s *registry.Snapshot, port uint32, f func(*registry.Service, registry.Port)) {
	for name := range s.Hosts() {
		if svc := s.Visible(name, w.ns, w.scope); svc != nil {
			if p, ok := svc.Port(port); ok && p.Protocol != registry.UDP {
				f(svc, p)
			}
		}
	}
}

// readable is Readable by looking at every host.
func (w who) readable(s *registry.Snapshot, port uint32) bool {
	if registry.ServerFirst(port) {
		return false
	}
	read, opaque := port == 80 || port == 443, false
	w.sees(s, port, func(svc *registry.Service, p registry.Port) {
		if !s.Foreign(svc, w.ns) {
			read, opaque = read || p.Protocol != registry.TCP, opaque || p.Protocol == registry.TCP
		}
	})
	return read || !opaque
}

// matchRange is MatchRange by looking at every host.
func (w who) matchRange(s *registry.Snapshot, ip netip.Addr, port uint32) string {
	var hosts []string
	narrowest := -1
	w.sees(s, port, func(svc *registry.Service, p registry.Port) {
		for _, a := range svc.Addresses {
			if a.IsSingleIP() || !a.Contains(ip) || svc.Wildcard() || p.Protocol.IsHTTP() || a.Bits() < narrowest {
				continue
			}
			if a.Bits() > narrowest {
				hosts, narrowest = nil, a.Bits()
			}
			hosts = append(hosts, svc.Host)
		}
	})
	return s.RangeOwner(hosts, w.ns, w.scope)
}

// madeUp is who has a made-up address, by looking at every host.
func (w who) madeUp(s *registry.Snapshot, ip netip.Addr, port uint32) (owner string) {
	w.sees(s, port, func(svc *registry.Service, _ registry.Port) {
		if svc.VIP4() == ip || svc.VIP6() == ip {
			owner = svc.Host
		}
	})
	return owner
}

func hostOf(svc *registry.Service) string {
	if svc == nil {
		return ""
	}
	return svc.Host
}

// TestLookupsFindWhatIsThere holds that the indexes answer as somebody who looks at every host.
func TestLookupsFindWhatIsThere(t *testing.T) {
	cfg := mesh.Default()
	cfg.Exports = mesh.IstioExports() // more of it counts
	world := registrytest.NewWorld(7)
	r := registry.New(&cfg)
	ports := append([]uint32{25, 5432, 8080, 9000}, registrytest.Ports...)
	found := map[string]int{}
	for step := range 3000 {
		r.Apply([]config.Change{world.Change()})
		if step%50 != 0 {
			continue
		}
		s := r.Snapshot()
		addresses := map[netip.Addr]bool{netip.MustParseAddr("240.240.200.200"): true, netip.MustParseAddr("2001:db8::1"): true}
		for _, list := range s.Hosts() {
			for _, svc := range list {
				for _, a := range svc.Addresses {
					addresses[a.Addr()], addresses[a.Addr().Next()] = true, true
				}
				if svc.MadeUp != 0 {
					addresses[svc.VIP4()], addresses[svc.VIP6()] = true, true
				}
			}
		}
		for _, ns := range registrytest.Namespaces {
			for _, w := range []who{{ns, nil}, {ns, s.Scope(ns, nil)}} {
				for _, port := range ports {
					if got, want := s.Readable(port, ns, w.scope), w.readable(s, port); got != want {
						t.Fatalf("step %d: Readable(%d, %s) = %v", step, port, ns, got)
					}
					for ip := range addresses {
						got := hostOf(s.MatchRange(ip, port, ns, w.scope))
						if want := w.matchRange(s, ip, port); got != want {
							t.Fatalf("step %d: MatchRange(%s, %d, %s) = %q, want %q", step, ip, port, ns, got, want)
						}
						if got != "" {
							found["range"]++
						}
						if !host.MadeUp(ip) {
							continue
						}
						got = hostOf(s.MatchAddress(ip, port, ns, w.scope))
						if want := w.madeUp(s, ip, port); got != want {
							t.Fatalf("step %d: MatchAddress(%s, %d, %s) = %q, want %q", step, ip, port, ns, got, want)
						}
						if got != "" {
							found["made up"]++
						}
					}
				}
			}
		}
	}
	if found["range"] < 100 || found["made up"] < 100 {
		t.Errorf("too little was found for the test to mean anything: %v", found)
	}
}
