package registry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// contents is everything in a snapshot that others can see, as text.
func contents(t *testing.T, s *registry.Snapshot) string {
	t.Helper()
	all := map[string]any{}
	for host, list := range s.Hosts() {
		all[host] = list
		for _, svc := range list {
			for _, ns := range registrytest.Namespaces {
				all[host+" rule "+svc.Source.String()+" "+ns] = s.Rule(svc, ns, "")
				all[host+" far end "+svc.Source.String()+" "+ns] = farEnds(s, svc, ns)
			}
		}
	}
	all["reserved addresses"] = s.ReservedAddresses()
	for _, ns := range registrytest.Namespaces {
		all["selecting "+ns] = s.Selecting(ns, map[string]string{"istio": "app"})
		all["scope "+ns] = s.Scope(ns, nil)
		all["view "+ns] = fmt.Sprint(s.View(ns), s.Different(ns))
		all["exits "+ns] = s.ExitsIn(ns)
		maps.Copy(all, comesIn(s, ns))
		scope := s.Scope(ns, nil)
		for _, address := range registrytest.Addresses {
			for _, port := range registrytest.Ports {
				if owner := s.AddressOwner(netip.MustParseAddr(address), port, ns, scope); owner != nil {
					all[fmt.Sprintf("address %s:%d %s", address, port, ns)] = owner.Source.String() + " " + owner.Host
				}
			}
		}
		for host := range s.Hosts() {
			for at, list := range asked(s, host, ns, scope) {
				all[at] = list
			}
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// comesIn is what pods of a namespace let in, and which of their ports something leads to.
func comesIn(s *registry.Snapshot, ns string) map[string]any {
	out := map[string]any{}
	for _, address := range append([]string{"10.2.0.1", "10.2.0.2", "10.0.0.2"}, registrytest.Pods...) {
		for _, label := range []string{"app", "egressgateway"} {
			out[strings.Join([]string{"comes in", ns, address, label}, " ")] = s.Inbound(ns, map[string]string{"istio": label}, address)
		}
	}
	return out
}

// farEnds are what is closed of a service, left out and given, in each kind of place.
func farEnds(s *registry.Snapshot, svc *registry.Service, ns string) (out []string) {
	for _, kind := range []registry.ConnectorKind{registry.AtSidecar, registry.AtGateway, registry.AtForward} {
		if kind == registry.AtGateway && (svc.Exit.IsZero() || !svc.External) {
			continue // no gateway is asked for it
		}
		rule := s.ExitRule(svc)
		if kind == registry.AtSidecar {
			rule = s.Rule(svc, ns, s.Selecting(ns, map[string]string{"istio": "app"}))
		}
		out = append(out, s.UpstreamRestrictions(svc, rule, registry.Connector{Kind: kind, Namespace: ns}).Key())
	}
	return out
}

// asked is what a namespace is told about a host.
func asked(s *registry.Snapshot, host, ns string, scope *registry.SidecarScope) map[string]string {
	out := map[string]string{}
	svc := s.Visible(host, ns, scope)
	if svc != nil {
		at := host + " in " + ns
		out["governs "+at] = fmt.Sprint(svc.Source, svc.Hash, s.Foreign(svc, ns))
		out["yielded "+at] = fmt.Sprint(s.LostAddresses(svc, ns, scope))
		out["closed "+at] = fmt.Sprint(s.Shut(svc, ns, scope))
		out["routes "+at] = led(s, s.Routes(svc, ns, s.Selecting(ns, nil)), ns)
		out["routes of apps "+at] = led(s, s.Routes(svc, ns, s.Selecting(ns, map[string]string{"istio": "app"})), ns)
		for _, name := range []string{"default/g1", "istio-system/g1", "istio-system/g2"} {
			in, name, _ := strings.Cut(name, "/")
			key := config.Key{Kind: config.KindGateway, Namespace: in, Name: name}
			for _, v := range s.GatewayRoutes(svc, ns, key) {
				out["routes of "+in+"/"+name+" "+at] += led(s, v, ns) + fmt.Sprint(s.Gateway(key).Ports(v.Key.Namespace, host, false), slices.Contains(s.GatewaysSelecting(egress), s.Gateway(key)))
			}
		}
	}
	return out
}

// egress is the Service of the gateway in random worlds.
var egress = registry.Ref{Namespace: "istio-system", Name: "istio-egressgateway"}

// led is what a VirtualService says, and what is at the ends of its ways.
func led(s *registry.Snapshot, v *registry.VirtualService, ns string) string {
	if v == nil {
		return ""
	}
	text := fmt.Sprint(v.Key, v.Hash)
	for _, h := range v.HTTP {
		for _, d := range h.Destinations {
			if to := s.Visible(d.Host, ns, nil); to != nil {
				text += fmt.Sprint(" ", to.Source, to.Hash)
			}
		}
	}
	return text
}

// fewRows is what VirtualServices may come to for hosts below their patterns in random worlds: some do, and some come to more.
const fewRows = 4

// TestIncrementalIsFull holds that a registry after any sequence of changes equals one that was given what stands,
// in any order, at once.
func TestIncrementalIsFull(t *testing.T) {
	cfg := mesh.Default()
	cfg.Exports = mesh.IstioExports() // more of it counts
	world := registrytest.NewWorld(1)
	incremental := registry.New(&cfg).Bounded(fewRows)
	steps := registrytest.Times(10_000)
	for step := range steps {
		change := world.Change
		if step%5 == 0 {
			change = world.Arriving
		}
		incremental.Apply([]config.Change{change()})
		if step%200 != 0 && step != steps-1 {
			continue
		}
		full := registry.New(&cfg).Bounded(fewRows)
		full.Apply(world.Shuffled())
		if d := cmp.Diff(contents(t, full.Snapshot()), contents(t, incremental.Snapshot())); d != "" {
			t.Fatalf("after %d changes (-full +incremental):\n%s", step+1, d)
		}
	}
}

// TestChangedIsComplete holds that a host which Apply does not name is the same as before.
func TestChangedIsComplete(t *testing.T) {
	cfg := mesh.Default()
	cfg.Exports = mesh.IstioExports() // more of it counts
	world := registrytest.NewWorld(2)
	r := registry.New(&cfg).Bounded(fewRows)
	before := r.Snapshot()
	for step := range registrytest.Times(3000) {
		change := world.Change
		if step%5 == 0 {
			change = world.Arriving
		}
		after, changed := r.Apply([]config.Change{change()})
		renumbered := after.Renumbered(changed)
		for _, ns := range registrytest.Namespaces {
			if d := cmp.Diff(comesIn(before, ns), comesIn(after, ns)); d != "" && !renumbered[ns] && !changed.Kube && len(changed.Scopes)+len(changed.Inbound) == 0 {
				t.Fatalf("something else comes in to pods of %s, without being named:\n%s", ns, d)
			}
		}
		named := map[string]bool{}
		for _, h := range changed.Hosts {
			named[h] = true
		}
		for host, list := range after.Hosts() {
			if named[host] {
				continue
			}
			old := before.Services(host)
			for _, ns := range registrytest.Namespaces { // what others wrote decides who governs it, and which addresses it has
				if d := cmp.Diff(asked(before, host, ns, nil), asked(after, host, ns, nil)); d != "" {
					t.Fatalf("another answer without being named:\n%s", d)
				}
			}
			for i := range min(len(old), len(list)) {
				for _, ns := range registrytest.Namespaces {
					if was, is := farEnds(before, old[i], ns), farEnds(after, list[i], ns); !slices.Equal(was, is) {
						t.Fatalf("%s: from %s its far end is %v, and was %v, without being named", host, ns, is, was)
					}
				}
			}
			if len(old) != len(list) {
				t.Fatalf("%s changed without being named", host)
			}
			for i := range list {
				if !slices.Contains(changed.Endpoints, host) && !slices.EqualFunc(before.EndpointsOf(old[i]), after.EndpointsOf(list[i]), func(a, b registry.Endpoint) bool { return cmp.Equal(a, b) }) {
					t.Fatalf("%s has other endpoints without being named", host)
				}
				if old[i] != list[i] {
					t.Fatalf("%s: registration %s is another value without being named", host, list[i].Source)
				}
			}
		}
		before = after
	}
}

// TestOrdinaryNamespacesSeeTheSame holds that a namespace which has no view of its own is told what every such namespace
// is told.
func TestOrdinaryNamespacesSeeTheSame(t *testing.T) {
	cfg := mesh.Default()
	cfg.Exports = mesh.IstioExports() // more of it counts
	world := registrytest.NewWorld(5)
	r := registry.New(&cfg)
	ordinary := 0
	for range registrytest.Times(3000) {
		s, _ := r.Apply([]config.Change{world.Change()})
		for _, ns := range registrytest.Namespaces {
			if s.View(ns) != "" {
				continue
			}
			ordinary++
			for host := range s.Hosts() {
				own, common := s.Visible(host, ns, nil), s.Visible(host, "", nil)
				if own != common {
					t.Fatalf("%s: in %s it is %v, and %v for everybody", host, ns, own, common)
				}
				if own != nil && s.Routes(own, ns, "") != s.Routes(own, "", "") {
					t.Fatalf("%s: in %s %v leads it, and %v for everybody", host, ns, s.Routes(own, ns, ""), s.Routes(own, "", ""))
				}
				if own != nil && s.Rule(own, ns, "") != s.Rule(own, "", "") {
					t.Fatalf("%s: in %s the rule %v counts for it, and %v for everybody", host, ns, s.Rule(own, ns, ""), s.Rule(own, "", ""))
				}
				if own != nil && !slices.Equal(s.Shut(own, ns, nil), s.Shut(own, "", nil)) {
					t.Fatalf("%s: in %s it closes %v, and %v for everybody", host, ns, s.Shut(own, ns, nil), s.Shut(own, "", nil))
				}
			}
		}
	}
	if ordinary == 0 {
		t.Error("no namespace was ordinary")
	}
}

// TestNothingNewIsNoChange holds that what is read again unchanged touches nothing.
func TestNothingNewIsNoChange(t *testing.T) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(3)
	r := registry.New(&cfg)
	for range 200 {
		world.Change()
	}
	first, _ := r.Apply(world.Shuffled())
	second, changed := r.Apply(world.Shuffled())
	if !changed.Empty() || first != second {
		t.Errorf("the same objects again changed %+v", changed)
	}
}

// TestAddressesAreUnique holds that no two hosts share a made-up address, also those that want the same slot.
func TestAddressesAreUnique(t *testing.T) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(4)
	r := registry.New(&cfg)
	for range 500 {
		s, _ := r.Apply([]config.Change{world.Change()})
		owner := map[string]string{}
		for host, list := range s.Hosts() {
			for _, svc := range list {
				if svc.MadeUp == 0 {
					continue
				}
				if other := owner[svc.VIP4().String()]; other != "" && other != host {
					t.Fatalf("%s and %s share %s", host, other, svc.VIP4())
				}
				owner[svc.VIP4().String()] = host
			}
		}
		for _, ns := range registrytest.Namespaces { // and in each namespace's eyes
			owner := map[string]string{}
			for host := range s.Hosts() {
				svc := s.Visible(host, ns, nil)
				if svc == nil || svc.MadeUp == 0 {
					continue
				}
				if other := owner[svc.VIP4().String()]; other != "" {
					t.Fatalf("in %s, %s and %s share %s", ns, host, other, svc.VIP4())
				}
				owner[svc.VIP4().String()] = host
			}
		}
	}
}

// TestOwnAddressStays holds that no host of another namespace moves the address that a namespace's own host has in its
// eyes, or the root namespace's in everybody's, whatever it is called and however old its object is.
func TestOwnAddressStays(t *testing.T) {
	const tcp = "ports: [{number: 5432, name: tcp, protocol: TCP}]"
	w := newWorld(t, entryYAML("team-a/own", "h-71.example", tcp), entryYAML("istio-system/roots", "h-1000.example", tcp))
	before := w.Snapshot()
	addresses := func(s *registry.Snapshot) string {
		return fmt.Sprint(s.Visible("h-71.example", "team-a", nil).VIP4(), s.Visible("h-1000.example", "team-a", nil).VIP4(), s.Visible("h-1000.example", "x", nil).VIP4())
	}
	was := addresses(before)
	slot := before.Visible("h-71.example", "team-a", nil).VIP4()
	for i := range registrytest.Times(400) { // names are tried until some fall on the same slots; h-159.example does
		w.apply(entryYAML(fmt.Sprintf("aaa/e%d", i), fmt.Sprintf("a-%d.example, h-159.example, h-%d.example", i, i), "ports: [{number: 443, name: tls, protocol: TLS}]"))
		if now := addresses(w.Snapshot()); now != was {
			t.Fatalf("%s became %s", was, now)
		}
	}
	if own := w.Snapshot().Services("h-71.example")[0]; own.VIP4() == slot {
		t.Error("nobody else wanted the address: the test tries nothing")
	}
	for host := range w.Snapshot().Hosts() {
		if svc := w.Snapshot().Visible(host, "team-a", nil); host != "h-71.example" && svc != nil && svc.VIP4() == slot {
			t.Errorf("%s has the address too", host)
		}
	}
}
