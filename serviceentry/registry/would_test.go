package registry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// TestWould holds that what would be is what comes of it, and that nothing is left of a question.
func TestWould(t *testing.T) {
	cfg := mesh.Default()
	cfg.Exports = mesh.IstioExports() // more of it counts
	world, asked := registrytest.NewWorld(3), registrytest.NewWorld(4)
	r := registry.New(&cfg)
	steps := registrytest.Times(4000)
	for step := range steps {
		var questions []config.Change // of other objects by the same names, some of them twice in one question, and of some that are no more
		for range 1 + step%4 {
			questions = append(questions, asked.Change())
		}
		r.Would(questions...)
		c := world.Change()
		var would *registry.Snapshot
		if step%100 == 0 {
			would = r.Would(c)
		}
		is, _ := r.Apply([]config.Change{c})
		if would != nil {
			if d := cmp.Diff(contents(t, is), contents(t, would)); d != "" {
				t.Fatalf("step %d, %s (-is +would be):\n%s", step, c.Key, d)
			}
		}
		if step%400 != 0 && step != steps-1 {
			continue
		}
		full := registry.New(&cfg)
		full.Apply(world.Shuffled())
		if d := cmp.Diff(contents(t, full.Snapshot()), contents(t, r.Snapshot())); d != "" {
			t.Fatalf("step %d (-never asked +asked):\n%s", step, d)
		}
	}
}
