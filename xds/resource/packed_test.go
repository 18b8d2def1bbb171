package resource

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
)

func rows(t Type, n int) (list []*Resource, wires [][]byte) {
	for i := range n {
		body := fmt.Appendf(nil, "what a row of host-%d.example.com says, over and over, which is nearly what that of host-%d.example.com says", i, i+1)
		r := SealBytes(t, fmt.Sprintf("80/host-%d.example.com", i), body)
		list, wires = append(list, r), append(wires, bytes.Clone(r.Wire()))
	}
	return list, wires
}

// TestPacked: what is packed reads as before, also while it is being packed and when what was opened is gone.
func TestPacked(t *testing.T) {
	list, wires := rows(VirtualHost, 2000)
	values := make([][]byte, len(list))
	for i, r := range list {
		values[i] = bytes.Clone(r.Value())
	}
	look := func() {
		for i, r := range list {
			if !bytes.Equal(r.Wire(), wires[i]) || !bytes.Equal(r.Value(), values[i]) || r.Size() != len(wires[i]) {
				t.Errorf("%s reads %q", r.Name, r.Wire())
				return
			}
		}
	}
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(look)
	}
	var p Packer
	for some := range slices.Chunk(list, 3) {
		p.Add(some)
	}
	p.Add(list) // what is packed already
	p.Done()
	readers.Wait()
	look()
	runtime.GC()
	look()

	blocks, size, frames := map[*block]bool{}, 0, 0
	for _, r := range list {
		b := r.kept.Load().block
		if size += r.Size(); !blocks[b] {
			frames += len(b.frame)
		}
		blocks[b] = true
	}
	if len(blocks) > 2+size/packSize || frames == 0 || frames > size/4 {
		t.Errorf("%d bytes are in %d blocks of %d bytes", size, len(blocks), frames)
	}
}

// TestNotPacked: keys stay as they are, and few resources too.
func TestNotPacked(t *testing.T) {
	keys, _ := rows(Secret, 2000)
	few, _ := rows(VirtualHost, 5)
	var p Packer
	p.Add(keys)
	p.Done()
	p.Add(few)
	p.Done()
	for _, r := range append(keys, few...) {
		if r.kept.Load().block.packed() {
			t.Fatalf("%s is packed", r.Name)
		}
	}
}
