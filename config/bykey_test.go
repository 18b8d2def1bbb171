package config

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestByKey holds it against a map, after random changes.
func TestByKey(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m ByKey[int]
	want := map[Key]int{}
	for i := range 2000 {
		k := Key{Kind: []Kind{KindService, KindServiceEntry}[r.IntN(2)], Namespace: fmt.Sprint(r.IntN(3)), Name: fmt.Sprint(r.IntN(5)), Cluster: []string{"", "west"}[r.IntN(2)]}
		if r.IntN(2) == 0 {
			m.Put(k, i)
			want[k] = i
		} else {
			m.Delete(k)
			delete(want, k)
		}
		got := map[Key]int{}
		for key := range m.Keys() {
			got[key] = m.Get(key)
		}
		if all := maps.Collect(m.All()); !maps.Equal(all, got) {
			t.Fatalf("it has %v, and says %v", got, all)
		}
		of := maps.Collect(m.Of(KindService))
		maps.Copy(of, maps.Collect(m.Of(KindServiceEntry)))
		if !maps.Equal(of, got) {
			t.Fatalf("it has %v, and of both kinds %v", got, of)
		}
		if !maps.Equal(got, want) || m.Get(k) != want[k] {
			t.Fatalf("after %d changes it has %v, not %v", i, got, want)
		}
	}
	for range m.Keys() {
		break
	}
	for _, k := range slices.Collect(m.Keys()) {
		m.Delete(k)
	}
	if len(m.groups) > 0 {
		t.Errorf("%d groups of nothing are kept", len(m.groups))
	}
}

func TestTexts(t *testing.T) {
	for _, list := range [][]string{nil, {"a"}, {"a", "b"}, {""}, {"", "a", ""}, {"a.test", "*.a.test"}} {
		texts := TextsOf(list)
		if got := slices.Collect(texts.All()); !slices.Equal(got, list) || (len(texts) == 0) != (len(list) == 0) {
			t.Errorf("of %q there are %q", list, got)
		}
		for first := range texts.All() {
			if first != list[0] {
				t.Errorf("the first of %q is %q", list, first)
			}
			break
		}
	}
}
