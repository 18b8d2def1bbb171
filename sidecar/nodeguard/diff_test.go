package nodeguard

import (
	"net/netip"
	"slices"
	"testing"
)

// step builds a plan of pods that are written as "namespace/name address".
func step(t *testing.T, pods ...Pod) Plan {
	t.Helper()
	o := chosen{}.options(t)
	p, err := Build(o, View{
		Pods: pods, Namespaces: map[string]map[string]string{"shop": {"istio-injection": "enabled"}, "legacy": {}},
		Nodes: []Node{{Name: "here", PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func pod(namespace, name, address string) Pod {
	return Pod{Namespace: namespace, Name: name, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

func TestDiff(t *testing.T) {
	none := step(t)
	one := step(t, pod("shop", "web-1", "10.244.1.2"))
	other := step(t, pod("shop", "web-2", "10.244.1.2"))
	open := step(t, pod("legacy", "web", "10.244.1.2"), pod("legacy", "more", "10.244.1.3"))
	const a, b = "10.244.1.2/32", "10.244.1.3/32"
	for name, c := range map[string]struct {
		have, want Plan
		changes    []string
	}{
		"nothing":           {one, one, nil},
		"a pod comes":       {none, one, []string{"guarded4 + " + a, "refused4 + " + a}},
		"a pod goes":        {one, none, []string{"guarded4 - " + a, "refused4 - " + a}},
		"an address moves":  {one, other, []string{"refused4 - " + a, "refused4 + " + a}},
		"no longer guarded": {one, open, []string{"open4 + " + a, "open4 + " + b, "guarded4 - " + a, "refused4 - " + a}},
	} {
		var got []string
		for _, change := range Diff(c.have, c.want) {
			for _, e := range change.Remove {
				got = append(got, change.Set.Name+" - "+e.String())
			}
			for _, e := range change.Add {
				got = append(got, change.Set.Name+" + "+e.String())
			}
		}
		if !slices.Equal(got, c.changes) {
			t.Errorf("%s: %q, want %q", name, got, c.changes)
		}
	}
	if one.Guarded() != 1 || one.Open() != 0 || open.Open() != 2 || open.Guarded() != 0 {
		t.Error("addresses are counted wrong")
	}
}
