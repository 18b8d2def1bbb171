package cache

import (
	"fmt"
	"runtime"
	"testing"
)

// TestBytesAreTrue: what an entry is counted with is what it takes, within a fifth.
func TestBytesAreTrue(t *testing.T) {
	if testing.Short() {
		t.Skip("fills 8 MiB")
	}
	const count = 30_000
	var before, after runtime.MemStats
	c := New(64 << 20)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range count {
		c.Put(entry(t, fmt.Sprintf("n%d.k1.bench.example", i), 4))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	taken, counted := float64(after.HeapAlloc-before.HeapAlloc), float64(c.Stats().Bytes)
	t.Logf("%.0f bytes an entry, counted as %.0f", taken/count, counted/count)
	if c.Stats().Entries != count || taken > counted*1.2 || taken < counted*0.8 {
		t.Errorf("%d entries take %.0f bytes, counted as %.0f", c.Stats().Entries, taken, counted)
	}
	runtime.KeepAlive(c)
}
