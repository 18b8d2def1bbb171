package registry_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const shared = "addresses: [203.0.113.98]\n  ports: [{number: 80, name: http, protocol: HTTP}, {number: 5432, name: pg, protocol: TCP}]"

// TestAddressOwner: an address that two hosts wrote leads to one of them, the same for all who see both.
func TestAddressOwner(t *testing.T) {
	address := netip.MustParseAddr("203.0.113.98")
	owner := func(s *registry.Snapshot, ns string) string {
		if svc := s.AddressOwner(address, 80, ns, nil); svc != nil {
			return svc.Host
		}
		return ""
	}
	w := newWorld(t)
	cfg := mesh.Default()
	cfg.Exports = mesh.IstioExports()
	w.SetMesh(&cfg)
	w.apply(entryYAML("shop/first", "z.test", shared))
	changed := w.apply(entryYAML("team/second", "a.test", shared))
	if !slices.Equal(changed.Hosts, []string{"a.test", "z.test"}) {
		t.Errorf("the host whose address is shared now was not named: %v", changed.Hosts)
	}
	s := w.Snapshot()
	for ns, want := range map[string]string{"shop": "z.test", "team": "a.test", "other": "z.test"} {
		if got := owner(s, ns); got != want {
			t.Errorf("in %s the address leads to %q, want %q", ns, got, want)
		}
	}
	want := []netip.AddrPort{netip.AddrPortFrom(address, 80), netip.AddrPortFrom(address, 5432)}
	if got := s.LostAddresses(s.Services("a.test")[0], "other", nil); !slices.Equal(got, want) {
		t.Errorf("a.test yields %v, want %v", got, want)
	}
	if got := s.LostAddresses(s.Services("z.test")[0], "other", nil); len(got) != 0 {
		t.Errorf("the owner yields %v", got)
	}
	changed = w.remove(entryYAML("shop/first", "z.test", shared))
	if !slices.Equal(changed.Hosts, []string{"a.test", "z.test"}) || owner(w.Snapshot(), "other") != "a.test" {
		t.Errorf("what is left of the two: %v, owner %q", changed.Hosts, owner(w.Snapshot(), "other"))
	}
}

// TestMadeUpAddressesCannotBeWritten: they belong to the hosts that they were made up for.
func TestMadeUpAddressesCannotBeWritten(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.test", ""))
	vip := w.Snapshot().Services("a.test")[0].VIP4()
	w.apply(entryYAML("team/b", "b.test", "ports: [{number: 80, name: http, protocol: HTTP}]\n  addresses: ["+vip.String()+"]"))
	b := w.Snapshot().Services("b.test")[0]
	if len(b.Addresses) != 0 || b.MadeUp == 0 || b.VIP4() == vip {
		t.Errorf("b.test has the addresses %v and %v", b.Addresses, b.VIP4())
	}
}

// TestShortNameTaken: a host that is called like a Kubernetes service's short name touches the service.
func TestShortNameTaken(t *testing.T) {
	w := newWorld(t, "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}\n")
	for _, host := range []string{"web", "web.shop", "web.shop.svc"} {
		changed := w.apply(entryYAML("team/short", host, ""))
		if !slices.Contains(changed.Hosts, "web.shop.svc.cluster.local") {
			t.Errorf("%s: changed %v", host, changed.Hosts)
		}
	}
}

// TestEntriesOfOneHostJoin: entries of a namespace that differ in their ports only count as one.
func TestEntriesOfOneHostJoin(t *testing.T) {
	http, tls := "ports: [{number: 80, name: http, protocol: HTTP}]", "ports: [{number: 443, name: tls, protocol: TLS}]"
	first, second := entryYAML("shop/first", "a.test", http), entryYAML("shop/second", "a.test", tls)
	w := newWorld(t, first, second, entryYAML("team/other", "a.test", "ports: [{number: 9000, name: tcp, protocol: TCP}]"))
	seen := func() (from []string) {
		svc := w.Snapshot().Visible("a.test", "shop", nil)
		for _, p := range svc.Ports {
			from = append(from, svc.SourceOf(p).Name)
		}
		return from
	}
	if got := seen(); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("the ports are from %v", got)
	}
	w.remove(first)
	if got := seen(); !slices.Equal(got, []string{"second"}) {
		t.Errorf("without the first, the ports are from %v", got)
	}
	w.apply(first)
	w.remove(second)
	if got := seen(); !slices.Equal(got, []string{"first"}) {
		t.Errorf("without the second, the ports are from %v", got)
	}
}

// TestRuleBeforeItsHost: a rule that is there first counts once its host comes.
func TestRuleBeforeItsHost(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.test", ""), ruleYAML("shop/one", "a.test", ""))
	w.apply(ruleYAML("shop/early", "b.test", ""))
	w.apply(entryYAML("shop/b", "b.test", ""))
	s := w.Snapshot()
	if r := s.Rule(s.Services("b.test")[0], "team", ""); r == nil || r.Key.Name != "early" {
		t.Errorf("the rule is %v", r)
	}
}

// TestHandWrittenAddressesAreTheNamespacesOwn: what somebody wrote for a headless Service leads there in its own namespace; elsewhere
// only what a pod has, of either family, unless the mesh lets the namespace export addresses.
func TestHandWrittenAddressesAreTheNamespacesOwn(t *testing.T) {
	const objects = `
apiVersion: v1
kind: Service
metadata: {name: db, namespace: shop}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: tcp, port: 5432}]}
---
apiVersion: v1
kind: Pod
metadata: {name: db-0, namespace: shop, labels: {app: db}}
status: {phase: Running, podIP: 10.4.0.7, podIPs: [{ip: 10.4.0.7}, {ip: "fd00:4::7"}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
endpoints: [{addresses: [10.4.0.7]}, {addresses: [203.0.113.7]}]
ports: [{name: tcp, port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-2, namespace: shop, labels: {kubernetes.io/service-name: db}}
addressType: IPv6
endpoints: [{addresses: ["fd00:4::7"]}]
ports: [{name: tcp, port: 5432}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: machine, namespace: shop, labels: {app: db}}
spec: {address: 203.0.113.70}
`
	for _, exports := range []mesh.Exports{mesh.DefaultExports(), mesh.IstioExports()} {
		w := newWorld(t)
		cfg := mesh.Default()
		cfg.Exports = exports
		w.SetMesh(&cfg)
		w.apply(objects)
		s := w.Snapshot()
		for address, ofPod := range map[string]bool{"10.4.0.7": true, "fd00:4::7": true, "203.0.113.7": false, "203.0.113.70": false} {
			for _, ns := range []string{"shop", "team"} {
				ip := netip.MustParseAddr(address)
				leads := s.AddressOwner(ip, 5432, ns, nil) != nil
				if want := ofPod || ns == "shop" || len(exports) > 0 && !exports[0].ResolvedOnly; leads != want {
					t.Errorf("%v: in %s %s leads to the Service: %v, want %v", exports, ns, address, leads, want)
				}
				lost := slices.Contains(s.LostAddresses(s.Services("db.shop.svc.cluster.local")[0], ns, nil), netip.AddrPortFrom(ip, 5432))
				if lost == leads {
					t.Errorf("%v: in %s %s leads to the Service and is another's, or neither", exports, ns, address)
				}
			}
		}
	}
}

// TestNodesAddressesAreNotAPodsAlone: a pod on its Node's network has the address of the Node, which leads to who registered it before it leads to a headless Service's pod there.
func TestNodesAddressesAreNotAPodsAlone(t *testing.T) {
	w := newWorld(t, yamlOf("v1", "Service", "{name: h, namespace: team-b}", "{clusterIP: None, selector: {app: h}, ports: [{name: http, port: 9100}]}")+
		"---\n"+yamlOf("v1", "Pod", "{name: h-1, namespace: team-b, labels: {app: h}}", "{hostNetwork: true, nodeName: n5}")+"status: {phase: Running, hostIP: 10.0.0.5, podIP: 10.0.0.5, podIPs: [{ip: 10.0.0.5}]}\n")
	owner := func(ns string) string {
		if svc := w.Snapshot().AddressOwner(netip.MustParseAddr("10.0.0.5"), 9100, ns, nil); svc != nil {
			return svc.Host
		}
		return ""
	}
	pods := registry.Ref{Namespace: "team-b", Name: "h"}.Host()
	if got := owner("team-a"); got != pods {
		t.Errorf("nobody else has it, and it leads to %q", got)
	}
	w.apply(yamlOf("networking.istio.io/v1", "ServiceEntry", "{name: node, namespace: team-a}", "{hosts: [exporter.node5.example], location: MESH_INTERNAL, addresses: [10.0.0.5], ports: [{number: 9100, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 10.0.0.5}]}"))
	for ns, want := range map[string]string{"team-a": "exporter.node5.example", "team-b": pods} {
		if got := owner(ns); got != want {
			t.Errorf("in %s it leads to %q, want %q", ns, got, want)
		}
	}
}
