package registry

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestFrontingIndex: what is found by one label is what going through all Services finds.
func TestFrontingIndex(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	some := func(most int) map[string]string {
		out := map[string]string{}
		for range rng.IntN(most + 1) {
			out[fmt.Sprint("k", rng.IntN(3))] = fmt.Sprint("v", rng.IntN(3))
		}
		return out
	}
	found := 0
	for range 300 {
		cfg := mesh.Default()
		b := New(&cfg).begin()
		list := make([]*KubeService, 6)
		b.index.services["shop"] = map[config.Key]*corev1.Service{}
		for i := range list {
			list[i] = &KubeService{Ref: Ref{"shop", fmt.Sprint("s", i)}, Selector: some(3)}
			if rng.IntN(3) > 0 {
				list[i].Waypoint = Ref{"shop", "wp"}
			}
			b.kube.Put(list[i].Ref, list[i])
			b.index.services["shop"][config.Key{Kind: config.KindService, Namespace: "shop", Name: list[i].Ref.Name}] = nil
		}
		for range 20 {
			labels, want := some(3), false
			for _, k := range list {
				want = want || k.fronts(labels)
			}
			if got := b.behindWaypoint("shop", labels); got != want {
				t.Fatalf("%v: %v, want %v", labels, got, want)
			}
			if want {
				found++
			}
		}
	}
	if found == 0 {
		t.Error("no pod was behind a waypoint, which says nothing")
	}
}
