package controlplane

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// TestCheckLooksAtEnough holds that objects which check does not look at change nothing of what it finds.
func TestCheckLooksAtEnough(t *testing.T) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(5)
	v := newInventory()
	found := 0
	for range 2000 {
		change := world.Change()
		if change.Object != nil {
			var all []config.Object
			for _, o := range world.Objects {
				all = append(all, *o)
			}
			want := slices.DeleteFunc(admission.Check(all, cfg), func(f admission.Finding) bool { return f.Key != change.Key })
			got := v.check(*change.Object, cfg)
			if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
				t.Fatalf("%s (-all +check):\n%s", change.Key, d)
			}
			found += len(got)
		}
		v.apply([]config.Change{change})
	}
	if found < 100 {
		t.Errorf("only %d findings: this tries little", found)
	}
}

// TestRelabelled: the pods that have other labels than before are named, and no others.
func TestRelabelled(t *testing.T) {
	v := newInventory()
	pod := func(name string, labels ...string) config.Change {
		o := &config.Object{Key: config.Key{Kind: config.KindPod, Namespace: "shop", Name: name}, Labels: map[string]string{}}
		for _, l := range labels {
			o.Labels[l] = "yes"
		}
		return config.Change{Key: o.Key, Object: o}
	}
	gone := pod("b")
	gone.Object = nil
	for i, step := range []struct {
		changes []config.Change
		want    map[string]map[string]string
	}{
		{[]config.Change{pod("a", "x"), pod("b", "x")}, nil},
		{[]config.Change{pod("a", "x"), pod("b")}, map[string]map[string]string{"b.shop": {}}},
		{[]config.Change{gone, pod("a", "x", "y"), pod("c")}, map[string]map[string]string{"a.shop": {"x": "yes", "y": "yes"}}},
		{[]config.Change{pod("b", "z")}, nil}, // another pod of that name
	} {
		if d := cmp.Diff(step.want, v.apply(step.changes)); d != "" {
			t.Errorf("step %d (-want +got):\n%s", i, d)
		}
	}
}
