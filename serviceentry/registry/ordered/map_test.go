package ordered_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

func contents(m ordered.Map[int], prefix string) (keys []string, values map[string]int) {
	values = map[string]int{}
	m.WalkPrefix(prefix, func(k string, v int) bool {
		keys, values[k] = append(keys, k), v
		return true
	})
	return keys, values
}

// TestVersions compares random versions, old ones too, with plain maps.
func TestVersions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type version struct {
		is   ordered.Map[int]
		want map[string]int
	}
	versions := []version{{ordered.New[int](), map[string]int{}}}
	for range 300 {
		from := versions[r.IntN(len(versions))] // any may be edited, not only the last
		edit, want := from.is.Edit(), maps.Clone(from.want)
		for range r.IntN(40) {
			key, value := strconv.Itoa(r.IntN(300)), r.Int()
			if r.IntN(3) == 0 {
				edit.Delete(key)
				delete(want, key)
				continue
			}
			edit.Put(key, value)
			want[key] = value
			if got, ok := edit.Get(key); !ok || got != value {
				t.Fatalf("%s is %d, %v in the edit that put it there", key, got, ok)
			}
		}
		versions = append(versions, version{edit.Done(), want})
	}
	for i, v := range versions {
		for _, prefix := range []string{"", "1", "29", "x"} {
			want := maps.Clone(v.want)
			maps.DeleteFunc(want, func(k string, _ int) bool { return !strings.HasPrefix(k, prefix) })
			keys, values := contents(v.is, prefix)
			if d := cmp.Diff(want, values); d != "" || !slices.IsSorted(keys) {
				t.Fatalf("version %d, prefix %q, keys %v (-want +got):\n%s", i, prefix, keys, d)
			}
		}
		if v.is.Len() != len(v.want) {
			t.Fatalf("version %d has the length %d, want %d", i, v.is.Len(), len(v.want))
		}
	}
}

func TestWalkEnds(t *testing.T) {
	edit := ordered.New[int]().Edit()
	for i := range 100 {
		edit.Put(strconv.Itoa(i), i)
	}
	n := 0
	edit.Done().Walk(func(string, int) bool { n++; return n < 3 })
	if n != 3 {
		t.Errorf("%d entries were walked after the third said to stop", n)
	}
}

func BenchmarkChange(b *testing.B) {
	edit := ordered.New[int]().Edit()
	for i := range 20_000 {
		edit.Put("443/api.service-"+strconv.Itoa(i)+".example.com", i)
	}
	m := edit.Done()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		edit := m.Edit()
		edit.Put("443/api.service-"+strconv.Itoa(i%20_000)+".example.com", i)
		m = edit.Done()
	}
}
