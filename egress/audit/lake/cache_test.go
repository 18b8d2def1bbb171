package lake

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestCacheIsBounded: the cache has so much, those files last that were used first; what came from a bucket when its reader was killed goes, and what is coming stays.
func TestCacheIsBounded(t *testing.T) {
	r := &reader{options: ReadOptions{Cache: t.TempDir()}}
	for name, age := range map[string]time.Duration{"old": 3 * time.Minute, "new": time.Minute, "wanted": time.Hour, ".part-1": 0, ".part-2": 59 * time.Minute, ".part-3": 2 * time.Hour} {
		file, at := filepath.Join(r.options.Cache, name), time.Now().Add(-age)
		if err := os.WriteFile(file, make([]byte, 10), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.evict(map[string]bool{"wanted": true}, 15); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(r.options.Cache)
	if err != nil {
		t.Fatal(err)
	}
	var stay []string
	for _, e := range entries {
		stay = append(stay, e.Name())
	}
	if want := []string{".part-1", ".part-2", "new", "wanted"}; !slices.Equal(stay, want) {
		t.Errorf("%v stay, want %v", stay, want)
	}
}
