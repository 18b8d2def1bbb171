package resource

import (
	"bytes"
	"runtime"
	"testing"
)

// TestKept: of what nothing is kept but the bytes, everything is read again, compressed or not, by itself or where it lies.
func TestKept(t *testing.T) {
	for _, n := range []int{1, 5, 900, 3000} {
		list, wires := rows(VirtualHost, n)
		for i := range list {
			if i%3 == 0 {
				list[i] = SealBytes(OnDemandCluster, list[i].Name, list[i].Value())
				wires[i] = bytes.Clone(list[i].Wire())
			}
		}
		var p Packer
		var kept []Packed
		for i := range list {
			kept = append(kept, p.Keep(list[i:i+1]))
		}
		p.Done()
		runtime.GC() // what was opened may be gone
		blocks := map[*block]bool{}
		for i, k := range kept {
			blocks[k.block] = true
			for _, got := range [][]*Resource{k.All(), k.Copy()} {
				if len(got) != 1 {
					t.Fatalf("%d of %d: %d resources", i, n, len(got))
				}
				r, want := got[0], list[i]
				if r.Type != want.Type || r.Name != want.Name || r.Version != want.Version || !bytes.Equal(r.Wire(), wires[i]) || !bytes.Equal(r.Value(), want.Value()) {
					t.Fatalf("%d of %d is %s %s %s: %q", i, n, r.Type.URL(), r.Name, r.Version, r.Wire())
				}
			}
			if one, ok := k.Find(list[i].Type, list[i].Name); !ok || !bytes.Equal(one.Wire(), wires[i]) {
				t.Errorf("%d of %d is not found by its name", i, n)
			}
			if _, ok := k.Find(list[i].Type, "another"); ok {
				t.Errorf("%d of %d is found by another name", i, n)
			}
			k.Walk(func(kind Type, name, version []byte) bool {
				if kind != list[i].Type || string(name) != list[i].Name || string(version) != list[i].Version {
					t.Errorf("%d of %d is said to be %s %s %s", i, n, kind.URL(), name, version)
				}
				return true
			})
		}
		packed := 0
		for b := range blocks {
			if b.packed() {
				packed++
			}
		}
		if n >= 900 && packed < len(blocks)-1 {
			t.Errorf("%d are in %d blocks, of which %d are compressed", n, len(blocks), packed)
		}
	}
	var none Packed
	if !none.Empty() || none.All() != nil || none.Copy() != nil {
		t.Error("none are some")
	}
	none.Walk(func(Type, []byte, []byte) bool { t.Error("none are some"); return true })
}
