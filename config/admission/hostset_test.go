package admission

import (
	"testing"

	"github.com/sallyport/sallyport/config/host"
)

// TestHostSet: a set covers what one of its patterns matches.
func TestHostSet(t *testing.T) {
	sets := [][]string{{}, {"a.com"}, {"A.com."}, {"*.a.com"}, {"*"}, {"*a.com"}, {"*.com", "x.a.org"}, {"*-api.a.com", "b.com"}, {"outbound_.80_._.web.shop.svc.cluster.local"}}
	names := []string{"a.com", "x.a.com", "y.x.a.com", "xa.com", "*.a.com", "*.x.a.com", "*.com", "*", "com", "x.a.org", "z-api.a.com", "b.com", "", "outbound_.80_._.web.shop.svc.cluster.local"}
	for _, set := range sets {
		for _, name := range names {
			want := false
			for _, h := range set {
				want = want || lowered(h) == host.Name(name) || host.Matches(lowered(h), host.Name(name))
			}
			if got := hostSetOf(set).covers(host.Name(name)); got != want {
				t.Errorf("%q of %q: %v", name, set, got)
			}
		}
	}
}
