package registry_test

import (
	"fmt"
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// below is a registry in which a VirtualService comes to few matches, and a DestinationRule to few names, for hosts below their patterns.
type below struct{ *registry.Registry }

const mostBelow = 5

func newBelow() below {
	cfg := mesh.Default()
	return below{registry.New(&cfg).Bounded(mostBelow)}
}

// put applies one object, nil for none, and gives the hosts that are touched.
func (b below) put(kind config.Kind, ns, name string, spec any) []string {
	key := config.Key{Kind: kind, Namespace: ns, Name: name}
	c := config.Change{Key: key}
	if spec != nil {
		c.Object = &config.Object{Key: key, Hash: 1, Spec: spec, Annotations: map[string]string{registry.GatewayAnnotation: registry.ExitDirect}}
	}
	_, changed := b.Apply([]config.Change{c})
	return changed.Hosts
}

func hostBelow(ns string, i int) string { return fmt.Sprintf("h%d.%s.many.test", i, ns) }

func entryBelow(ns string, i int) *networking.ServiceEntry {
	return &networking.ServiceEntry{
		Hosts: []string{hostBelow(ns, i)}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
		Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
	}
}

// TestCrowdingCostsWhatChanges: a host below a pattern touches itself, and all of its namespace only where they are too many with it, or no longer are.
func TestCrowdingCostsWhatChanges(t *testing.T) {
	routes := func(b below, ns string, hosts ...string) {
		b.put(config.KindVirtualService, ns, "v", &networking.VirtualService{Hosts: hosts, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "end.test"}}}}}})
	}
	rules := func(b below, ns string, hosts ...string) {
		for i, h := range hosts {
			b.put(config.KindDestinationRule, ns, fmt.Sprint("r", i), &networking.DestinationRule{Host: h, TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, SubjectAltNames: []string{"a.test"}}}})
		}
	}
	for name, told := range map[string]func(b below, ns string, hosts ...string){"VirtualServices": routes, "DestinationRules": rules} {
		b := newBelow()
		told(b, "shop", "*.many.test", "*.other.test")
		told(b, "near", "*.many.test")
		with := func(ns string, i int) []string {
			want := []string{hostBelow(ns, i)}
			if i == mostBelow {
				for j := range mostBelow {
					want = append(want, hostBelow(ns, j))
				}
			}
			slices.Sort(want)
			return want
		}
		for i := range 2 * mostBelow {
			for _, ns := range []string{"shop", "near"} {
				if touched, want := b.put(config.KindServiceEntry, ns, fmt.Sprint("e", i), entryBelow(ns, i)), with(ns, i); !slices.Equal(touched, want) {
					t.Errorf("%s: %s's host %d touches %v, want %v", name, ns, i, touched, want)
				}
			}
		}
		for i := 2*mostBelow - 1; i >= 0; i-- {
			if touched, want := b.put(config.KindServiceEntry, "shop", fmt.Sprint("e", i), nil), with("shop", i); !slices.Equal(touched, want) {
				t.Errorf("%s: without host %d: %v, want %v", name, i, touched, want)
			}
		}
	}
}

// TestWhoIsCrowded: what is closed names the VirtualService while it is there, and the DestinationRule.
func TestWhoIsCrowded(t *testing.T) {
	b := newBelow()
	b.put(config.KindVirtualService, "near", "v", &networking.VirtualService{Hosts: []string{"*.many.test"}, Http: []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "end.test"}}}}}})
	rule := config.Key{Kind: config.KindDestinationRule, Namespace: "near", Name: "r"}
	b.put(rule.Kind, "near", "r", &networking.DestinationRule{Host: "*.many.test", Subsets: []*networking.Subset{{Name: "s"}}})
	for i := range mostBelow + 1 {
		b.put(config.KindServiceEntry, "near", fmt.Sprint("e", i), entryBelow("near", i))
	}
	svc := func() *registry.Service { return b.Snapshot().Services(hostBelow("near", 0))[0] }
	if by, why, crowded := b.Snapshot().CrowdedBy(svc()); !crowded || by.Namespace != "near" {
		t.Errorf("near is crowded by %v %q", by, why)
	}
	if r := b.Snapshot().Rule(svc(), "near", ""); r.Crowded == "" || len(r.Subsets) > 0 {
		t.Errorf("the subsets count: %+v", r)
	}
	if parts := slices.Collect(b.Snapshot().CrowdedRule(rule)); len(parts) != 1 || parts[0].Names {
		t.Errorf("of the rule %v", parts)
	}
	b.put(config.KindVirtualService, "near", "v", nil)
	b.put(rule.Kind, "near", "r", nil)
	if by, why, crowded := b.Snapshot().CrowdedBy(svc()); crowded {
		t.Errorf("near is crowded by %v %q, which is gone", by, why)
	}
	if parts := slices.Collect(b.Snapshot().CrowdedRule(rule)); len(parts) > 0 {
		t.Errorf("of a rule that is gone %v", parts)
	}
}
