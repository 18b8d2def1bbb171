package controlplane

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/admission"
	"github.com/sallyport/sallyport/serviceentry/mesh"
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
			var all []serviceentry.Object
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
		v.apply([]serviceentry.Change{change})
	}
	if found < 100 {
		t.Errorf("only %d findings: this tries little", found)
	}
}
