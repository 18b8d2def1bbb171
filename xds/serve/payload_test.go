package serve

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sallyport/sallyport/xds/resource"
)

// TestBut holds that everything of a view that is kept as what differs from another one is packed as if it were packed alone.
func TestBut(t *testing.T) {
	defer func(size int) { runSize = size }(runSize)
	runSize = 60 // a few resources
	r := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		under, here, differ := map[string]*resource.Resource{}, map[string]*resource.Resource{}, map[string]bool{}
		some := func() *resource.Resource {
			return resource.SealBytes(resource.Name, strconv.Itoa(r.IntN(20)), []byte{byte(r.IntN(256))})
		}
		for range r.IntN(15) {
			one := some()
			under[one.Name], here[one.Name] = one, one
		}
		for range r.IntN(6) {
			one := some()
			if here[one.Name] = one; r.IntN(2) == 0 {
				delete(here, one.Name)
			}
			differ[one.Name] = true
		}
		base := pack(inOrder(under))
		got := base.but(slices.Values(slices.Sorted(maps.Keys(differ))), func(name string) (*resource.Resource, bool) { one, ok := here[name]; return one, ok })
		want := pack(inOrder(here))
		if !slices.Equal(slices.Collect(got.all()), slices.Collect(want.all())) || got.size != want.size || got.count != want.count {
			t.Fatalf("%d resources of %d bytes, not %d of %d", got.count, got.size, want.count, want.size)
		}
		if len(differ) > 0 && got.version == base.version {
			t.Fatal("another view has the same version")
		}
	}
}

func inOrder(m map[string]*resource.Resource) (out []*resource.Resource) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[name])
	}
	return out
}
