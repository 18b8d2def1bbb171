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

// change makes random changes of a map and of what it should be, and gives their keys.
func change(r *rand.Rand, edit *ordered.LayerEdit[int], want map[string]int) (keys []string) {
	for range r.IntN(10) {
		key, value := strconv.Itoa(r.IntN(100)), 1+r.IntN(4)
		keys = append(keys, key)
		if r.IntN(3) == 0 {
			edit.Delete(key)
			delete(want, key)
		} else {
			edit.Put(key, value)
			want[key] = value
		}
	}
	return keys
}

func hold(t *testing.T, what string, l ordered.Layer[int], want map[string]int) {
	t.Helper()
	if l.Len() != len(want) {
		t.Fatalf("%s has %d entries, not %d", what, l.Len(), len(want))
	}
	for _, prefix := range []string{"", "1", "9", "x"} {
		some, got, keys := maps.Clone(want), map[string]int{}, []string(nil)
		maps.DeleteFunc(some, func(k string, _ int) bool { return !strings.HasPrefix(k, prefix) })
		l.WalkPrefix(prefix, func(k string, v int) bool { keys, got[k] = append(keys, k), v; return true })
		if d := cmp.Diff(some, got); d != "" || !slices.IsSorted(keys) {
			t.Fatalf("%s, prefix %q, keys %v (-want +got):\n%s", what, prefix, keys, d)
		}
		first := 0
		l.WalkPrefix(prefix, func(string, int) bool { first++; return false })
		if first != min(1, len(some)) {
			t.Fatalf("%s, prefix %q: a walk that was ended went on to %d entries", what, prefix, first)
		}
	}
	for i := range 100 {
		key := strconv.Itoa(i)
		if v, ok := l.Get(key); v != want[key] || ok != (want[key] != 0) {
			t.Fatalf("%s has %s at %d, %v, not %d", what, key, v, ok, want[key])
		}
	}
}

// holdOwn holds that a layer knows which keys it says something of.
func holdOwn(t *testing.T, l ordered.Layer[int]) {
	t.Helper()
	own := slices.Collect(l.Own())
	for i := range 200 {
		if key := strconv.Itoa(i); l.Says(key) != slices.Contains(own, key) {
			t.Fatalf("it says something of %v, and of %s: %t", own, key, l.Says(key))
		}
	}
}

// TestLayers compares random layers, and the maps under them, with plain maps. The one over another keeps what it says when that
// changes, and what both say alike is in the lower one alone.
func TestLayers(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 50 {
		under, wantUnder := ordered.NewLayer(func(a, b int) bool { return a == b }), map[string]int{}
		if i%2 == 0 {
			under = under.Sifted()
		}
		edit := under.Edit()
		for range 20 {
			change(r, edit, wantUnder)
		}
		under = edit.Done()
		over, wantOver := under.Over(), maps.Clone(wantUnder)
		for range 20 {
			edit := under.Edit()
			keys := change(r, edit, wantUnder)
			under = edit.Done()
			edit = over.EditOver(under, keys)
			was, wantWas := over, maps.Clone(wantOver)
			change(r, edit, wantOver)
			over = edit.Done()
			hold(t, "the lower one", under, wantUnder)
			hold(t, "the upper one", over, wantOver)
			hold(t, "the upper one before", was, wantWas)
			holdOwn(t, over)
			if was.Alone() || over.Alone() || !under.Alone() {
				t.Fatal("who is over whom is forgotten")
			}
		}
		edit = over.Edit()
		for i := range 100 {
			if key := strconv.Itoa(i); wantUnder[key] == 0 {
				edit.Delete(key)
			} else {
				edit.Put(key, wantUnder[key])
			}
		}
		for key := range edit.Done().Own() {
			t.Fatalf("%s is kept of a map that equals the one under it", key)
		}
	}
}
