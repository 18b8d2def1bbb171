package registry_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestRulesOfOneHost: several DestinationRules of one namespace for one host are one, whatever order they come in, and what one of them says is
// gone when it goes.
func TestRulesOfOneHost(t *testing.T) {
	subsets := func(names ...string) (out []*networking.Subset) {
		for _, n := range names {
			out = append(out, &networking.Subset{Name: n, Labels: map[string]string{"version": n}})
		}
		return out
	}
	tls := func(mode networking.ClientTLSSettings_TLSmode) *networking.TrafficPolicy {
		return &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: mode}}
	}
	type rules map[string]*networking.DestinationRule // by name; the younger the later in the alphabet
	for _, tt := range []struct {
		name    string
		rules   rules
		without string // is taken away again
		want    string // whose trafficPolicy
		subsets []string
		mode    *registry.TLSMode
	}{
		{"subsets and policy", rules{"a": {Subsets: subsets("v1")}, "b": {TrafficPolicy: tls(networking.ClientTLSSettings_SIMPLE)}, "c": {Subsets: subsets("v2", "v1")}}, "", "b", []string{"v1", "v2"}, new(registry.TLSSimple)},
		{"the oldest policy", rules{"a": {TrafficPolicy: tls(networking.ClientTLSSettings_MUTUAL)}, "b": {TrafficPolicy: tls(networking.ClientTLSSettings_SIMPLE)}}, "", "a", nil, new(registry.TLSMutual)},
		{"an empty policy is one", rules{"a": {TrafficPolicy: &networking.TrafficPolicy{}}, "b": {TrafficPolicy: tls(networking.ClientTLSSettings_SIMPLE)}}, "", "a", nil, nil},
		{"the policy goes", rules{"a": {TrafficPolicy: tls(networking.ClientTLSSettings_MUTUAL)}, "b": {TrafficPolicy: tls(networking.ClientTLSSettings_SIMPLE), Subsets: subsets("v1")}}, "a", "b", []string{"v1"}, new(registry.TLSSimple)},
		{"a subset goes", rules{"a": {Subsets: subsets("v1")}, "b": {Subsets: subsets("v2")}}, "b", "a", []string{"v1"}, nil},
		{"exported otherwise", rules{"a": {Subsets: subsets("v1")}, "b": {Subsets: subsets("v2"), ExportTo: []string{"."}}}, "", "a", []string{"v1"}, nil},
		{"exported to more", rules{"a": {Subsets: subsets("v1"), ExportTo: []string{".", "x"}}, "b": {Subsets: subsets("v2"), TrafficPolicy: tls(networking.ClientTLSSettings_SIMPLE), ExportTo: []string{".", "x", "y"}}}, "", "b", []string{"v1", "v2"}, new(registry.TLSSimple)},
		{"exported to fewer", rules{"a": {Subsets: subsets("v1"), ExportTo: []string{".", "x", "y"}}, "b": {Subsets: subsets("v2"), ExportTo: []string{".", "x"}}}, "", "a", []string{"v1"}, nil},
		{"exported to all", rules{"a": {Subsets: subsets("v1"), ExportTo: []string{"."}}, "b": {Subsets: subsets("v2")}}, "", "a", []string{"v1"}, nil},
		{"the narrower one goes", rules{"a": {Subsets: subsets("v1"), ExportTo: []string{"."}}, "b": {Subsets: subsets("v2"), ExportTo: []string{".", "x"}}}, "a", "b", []string{"v2"}, nil},
		{"the wider one goes", rules{"a": {Subsets: subsets("v1"), ExportTo: []string{"."}}, "b": {Subsets: subsets("v2"), ExportTo: []string{".", "x"}}}, "b", "a", []string{"v1"}, nil},
		{"of some workloads", rules{"a": {Subsets: subsets("v1")}, "b": {Subsets: subsets("v2"), WorkloadSelector: &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"app": "x"}}}}, "", "a", []string{"v1"}, nil},
	} {
		for _, backwards := range []bool{false, true} {
			cfg := mesh.Default()
			r := registry.New(&cfg)
			entry := &config.Object{Key: config.Key{Kind: config.KindServiceEntry, Namespace: "shop", Name: "e"}, Hash: 1, Spec: &networking.ServiceEntry{
				Hosts: []string{"api.example.com"}, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}, Resolution: networking.ServiceEntry_DNS,
			}}
			changes := []config.Change{{Key: entry.Key, Object: entry}}
			for i, name := range []string{"a", "b", "c"} {
				spec := tt.rules[name]
				if spec == nil {
					continue
				}
				spec.Host = "api.example.com"
				o := &config.Object{Key: config.Key{Kind: config.KindDestinationRule, Namespace: "shop", Name: name}, Hash: uint64(i + 2), Created: time.Unix(int64(i), 0), Spec: spec}
				changes = append(changes, config.Change{Key: o.Key, Object: o})
			}
			if backwards {
				slices.Reverse(changes)
			}
			var s *registry.Snapshot
			for _, c := range changes {
				s, _ = r.Apply([]config.Change{c})
			}
			if tt.without != "" {
				s, _ = r.Apply([]config.Change{{Key: config.Key{Kind: config.KindDestinationRule, Namespace: "shop", Name: tt.without}}})
			}
			rule := s.Rule(s.Services("api.example.com")[0], "shop", "")
			var names []string
			for _, sub := range rule.Subsets {
				names = append(names, sub.Name)
			}
			got := rule.TLSFor(80)
			if rule.Key.Name != tt.want || !slices.Equal(names, tt.subsets) || (got == nil) != (tt.mode == nil) || got != nil && got.Mode != *tt.mode {
				t.Errorf("%s, backwards %v: of %s, subsets %v, TLS %+v", tt.name, backwards, rule.Key, names, got)
			}
		}
	}
}

// TestRuleExportedToMore: a rule that is exported to more than an older one is a part of that, and counts alone for the others.
func TestRuleExportedToMore(t *testing.T) {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	entry := &config.Object{Key: config.Key{Kind: config.KindServiceEntry, Namespace: "istio-system", Name: "e"}, Hash: 1, Spec: &networking.ServiceEntry{
		Hosts: []string{"api.shop.svc.cluster.local"}, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}, Resolution: networking.ServiceEntry_DNS,
	}}
	rule := func(name string, age int64, exportTo ...string) config.Change {
		o := &config.Object{Key: config.Key{Kind: config.KindDestinationRule, Namespace: "istio-system", Name: name}, Hash: uint64(age), Created: time.Unix(age, 0), Spec: &networking.DestinationRule{
			Host: "api.shop.svc.cluster.local", ExportTo: exportTo, Subsets: []*networking.Subset{{Name: name}},
		}}
		return config.Change{Key: o.Key, Object: o}
	}
	s, _ := r.Apply([]config.Change{{Key: entry.Key, Object: entry}, rule("narrow", 2, "a"), rule("wide", 3, "a", "b")})
	for ns, want := range map[string]string{"a": "[narrow wide]", "b": "[wide]", "c": "[]"} {
		var names []string
		if rule := s.Rule(s.Services("api.shop.svc.cluster.local")[0], ns, ""); rule != nil {
			for _, sub := range rule.Subsets {
				names = append(names, sub.Name)
			}
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("in %s: %s, want %s", ns, got, want)
		}
	}
}

// BenchmarkRulesOfOneHost is what one more DestinationRule of a namespace costs where many of it are for the same host.
func BenchmarkRulesOfOneHost(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			cfg := mesh.Default()
			r := registry.New(&cfg)
			rule := func(i int) config.Change {
				o := &config.Object{Key: config.Key{Kind: config.KindDestinationRule, Namespace: "shop", Name: strconv.Itoa(i)}, Hash: uint64(i + 1), Created: time.Unix(int64(i), 0), Spec: &networking.DestinationRule{
					Host: "api.example.com", Subsets: []*networking.Subset{{Name: "v" + strconv.Itoa(i%200), Labels: map[string]string{"version": "1"}}},
				}}
				return config.Change{Key: o.Key, Object: o}
			}
			for i := range n {
				r.Apply([]config.Change{rule(i)})
			}
			for i := n; b.Loop(); i++ {
				last := rule(i)
				r.Apply([]config.Change{last})
				r.Apply([]config.Change{{Key: last.Key}})
			}
		})
	}
}
