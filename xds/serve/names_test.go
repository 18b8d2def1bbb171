package serve

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// TestNamesAreShared: who asks for the same is remembered by the same texts; what is too long is not kept for others, nor any number of names.
func TestNamesAreShared(t *testing.T) {
	var n names
	long := strings.Repeat("x", longestName+1)
	ask := func() *discovery.DeltaDiscoveryRequest {
		row := strings.Clone("443/a.test")
		r := &discovery.DeltaDiscoveryRequest{
			ResourceNamesSubscribe:  []string{strings.Clone("443/a.test"), strings.Clone("443/b.test"), strings.Clone(long)},
			InitialResourceVersions: map[string]string{row: strings.Clone("0123456789abcdef"), "443/other.test": "1"},
		}
		n.share(r)
		return r
	}
	a, b := ask(), ask()
	same := func(x, y string) bool { return x == y && unsafe.StringData(x) == unsafe.StringData(y) }
	for i, want := range []bool{true, true, false} {
		x, y := a.GetResourceNamesSubscribe()[i], b.GetResourceNamesSubscribe()[i]
		if x != y || same(x, y) != want {
			t.Errorf("%.20q and %.20q are one text: %t, want %t", x, y, same(x, y), want)
		}
	}
	had := b.GetInitialResourceVersions()
	if len(had) != 2 || had["443/other.test"] != "1" || !same(had["443/a.test"], a.GetInitialResourceVersions()["443/a.test"]) {
		t.Errorf("what it has is %v, or another text", had)
	}
	for name := range had {
		if name == "443/a.test" && !same(name, a.GetResourceNamesSubscribe()[0]) {
			t.Error("what it has is known by another text than what it asks for")
		}
	}
	for i := range 3 * mostNames {
		n.share(&discovery.DeltaDiscoveryRequest{ResourceNamesSubscribe: []string{fmt.Sprint(i)}})
	}
	if len(n) > mostNames || len(n) == 0 {
		t.Errorf("%d names are kept, want %d at most", len(n), mostNames)
	}
}
