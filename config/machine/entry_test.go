package machine_test

import (
	"maps"
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/machine"
)

func theGroup() *config.Object {
	return &config.Object{
		Key: config.Key{Kind: config.KindWorkloadGroup, Namespace: "shop", Name: "db"}, Annotations: map[string]string{admission.MachinesAnnotation: "198.51.100.0/24"},
		Spec: &networking.WorkloadGroup{
			Metadata: &networking.WorkloadGroup_ObjectMeta{Labels: map[string]string{"app": "db"}, Annotations: map[string]string{"team": "data"}},
			Template: &networking.WorkloadEntry{
				ServiceAccount: "db", Ports: map[string]uint32{"pg": 5432}, Weight: 3, Network: "site", Locality: "r/z", Labels: map[string]string{"app": "template", "tier": "gold"},
			},
		},
	}
}

func theProxy() machine.Proxy {
	a := netip.MustParseAddr("192.0.2.7")
	return machine.Proxy{
		Namespace: "shop", Account: "db", Source: a, Group: "db", Host: "vm", Address: a,
	}
}

// TestEntry: the template, at the machine's address.
func TestEntry(t *testing.T) {
	o, err := machine.Entry(theGroup(), theProxy())
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "db", "tier": "gold", "security.istio.io/tlsMode": "istio"}
	want := &networking.WorkloadEntry{
		Address: "192.0.2.7", ServiceAccount: "db", Ports: map[string]uint32{"pg": 5432}, Weight: 3, Network: "site", Locality: "r/z", Labels: labels,
	}
	if !proto.Equal(o.Spec.(proto.Message), want) || !maps.Equal(o.Labels, labels) || o.Name != "db-192.0.2.7" {
		t.Errorf("%s %v\n%v", o.Name, o.Labels, o.Spec)
	}
	if !maps.Equal(o.Annotations, map[string]string{"team": "data", "istio.io/autoRegistrationGroup": "db"}) {
		t.Errorf("annotations %v", o.Annotations)
	}
	p := theProxy()
	p.Network, p.Locality, p.Address, p.Source = "site", "r/y", netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("2001:db8::7")
	o, err = machine.Entry(theGroup(), p)
	if err != nil {
		t.Fatal(err)
	}
	if spec := o.Spec.(*networking.WorkloadEntry); o.Name != "db-2001-db8--7" || spec.Network != "site" || spec.Locality != "r/y" {
		t.Errorf("%s %v", o.Name, spec)
	}
}

// TestNobodyElse: whoever is not the group's account, or not at the address, is told so.
func TestNobodyElse(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*config.Object, *machine.Proxy)
		told   string // "" where it may join
	}{
		"itself":            {func(*config.Object, *machine.Proxy) {}, ""},
		"within the ranges": {func(_ *config.Object, p *machine.Proxy) { p.Address = netip.MustParseAddr("198.51.100.9") }, ""},
		"another account":   {func(_ *config.Object, p *machine.Proxy) { p.Account = "web" }, `serviceAccount is "db"`},
		"another namespace": {func(_ *config.Object, p *machine.Proxy) { p.Namespace = "bank" }, "another namespace"},
		"the default account": {func(g *config.Object, _ *machine.Proxy) {
			g.Spec.(*networking.WorkloadGroup).Template.ServiceAccount = ""
		}, `serviceAccount is "default"`},
		"no template":       {func(g *config.Object, _ *machine.Proxy) { g.Spec.(*networking.WorkloadGroup).Template = nil }, "no spec.template"},
		"another's address": {func(_ *config.Object, p *machine.Proxy) { p.Address = netip.MustParseAddr("192.0.2.8") }, "comes from 192.0.2.7"},
		"loopback": {func(_ *config.Object, p *machine.Proxy) {
			p.Address = netip.MustParseAddr("127.0.0.1")
			p.Source = p.Address
		}, "no address that others"},
		"metadata": {func(g *config.Object, p *machine.Proxy) {
			g.Annotations[admission.MachinesAnnotation], p.Address = "0.0.0.0/0", netip.MustParseAddr("169.254.169.254")
		}, "no address that others"},
		"no address":      {func(_ *config.Object, p *machine.Proxy) { p.Address = netip.Addr{} }, "no address that others"},
		"another network": {func(_ *config.Object, p *machine.Proxy) { p.Network = "lan" }, `spec.template.network is "site"`},
		"a network where the group has none": {func(g *config.Object, p *machine.Proxy) {
			g.Spec.(*networking.WorkloadGroup).Template.Network, p.Network = "", "site"
		}, `spec.template.network is ""`},
		"a long network":  {func(_ *config.Object, p *machine.Proxy) { p.Network = strings.Repeat("n", 1<<20) }, "has 1048576 bytes"},
		"a long locality": {func(_ *config.Object, p *machine.Proxy) { p.Locality = strings.Repeat("r", 254) }, "has 254 bytes"},
		"a long name":     {func(_ *config.Object, p *machine.Proxy) { p.Host = strings.Repeat("h", 254) }, "has 254 bytes"},
		"a long group": {func(g *config.Object, p *machine.Proxy) {
			g.Name = strings.Repeat("g", 250)
			p.Group = g.Name
		}, "no name"},
		"bad ranges": {func(g *config.Object, p *machine.Proxy) { g.Annotations[admission.MachinesAnnotation] = "10.0.0.0/99" }, "no range of addresses"},
	} {
		t.Run(what, func(t *testing.T) {
			g, p := theGroup(), theProxy()
			c.change(g, &p)
			_, err := machine.Entry(g, p)
			if (err == nil) != (c.told == "") || err != nil && (!strings.Contains(err.Error(), c.told) || len(err.Error()) > 2000) {
				t.Errorf("%v, want %q", err, c.told)
			}
		})
	}
}

// TestHolder: who holds an entry is said in words that no other control plane writes.
func TestHolder(t *testing.T) {
	for by, want := range map[string]bool{machine.Holder("istio-system", "sallyport-7d"): true, "istiod-7d": false, "sallyport/": false, "sallyport/ns/": false, "": false} {
		ns, pod, ok := machine.HolderOf(map[string]string{"istio.io/autoRegistrationGroup": "db", "istio.io/workloadController": by})
		if ok != want || ok && (ns != "istio-system" || pod != "sallyport-7d") {
			t.Errorf("%q: %q, %q, %v", by, ns, pod, ok)
		}
	}
	if _, _, ok := machine.HolderOf(map[string]string{"istio.io/workloadController": machine.Holder("a", "b")}); ok {
		t.Error("an entry of no group is a machine's")
	}
}
