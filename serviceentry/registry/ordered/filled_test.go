package ordered_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// TestFilled holds what an entry takes of a map that is put in order, or nearly, as all are when everything is read: 24 bytes are its key and its value.
func TestFilled(t *testing.T) {
	const n = 50_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%06d", i)
	}
	for what, order := range map[string]func(i int) int{
		"in order":                 func(i int) int { return i },
		"backwards":                func(i int) int { return n - 1 - i },
		"in order, of two at once": func(i int) int { return i%2*n/2 + i/2 },
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		edit := ordered.New[*int]().Edit()
		for i := range n {
			edit.Put(keys[order(i)], nil)
		}
		m := edit.Done()
		edit = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := float64(after.HeapAlloc-before.HeapAlloc) / n; each > 32 {
			t.Errorf("%s: %.1f bytes each", what, each)
		}
		i := 0
		m.Walk(func(key string, _ *int) bool { i++; return key == keys[i-1] })
		if i != n || m.Len() != n {
			t.Errorf("%s: %d entries are in order, of %d", what, i, m.Len())
		}
	}
	runtime.KeepAlive(keys)
}
