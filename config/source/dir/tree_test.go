package dir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/fsnotify/fsnotify"

	"github.com/sallyport/sallyport/config"
)

// TestScanOfWhatIsKnown: what is as it was is looked at twice a minute, for as long as the process runs, and leaves next to nothing
// behind: an entry, its name, and the name once more for the kernel.
func TestScanOfWhatIsKnown(t *testing.T) {
	root, files := t.TempDir(), 500
	for i := range files {
		text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: n-%d}\n", i)
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("n-%d.yaml", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watcher.Close() }()
	tree := newTree(root, watcher, slog.New(slog.DiscardHandler))
	if batch, findings := tree.update([]string{root}); len(batch) != files || len(findings) > 0 {
		t.Fatalf("%d objects, %v", len(batch), findings)
	}
	made := testing.AllocsPerRun(3, func() {
		if batch, findings := tree.update([]string{root}); len(batch)+len(findings) > 0 {
			t.Errorf("%d changes of what is as it was, %v", len(batch), findings)
		}
	})
	if most := 4 * float64(files); made > most {
		t.Errorf("a scan of %d known files makes %.0f objects, more than %.0f", files, made, most)
	}
	if err := os.Remove(filepath.Join(root, "n-7.yaml")); err != nil {
		t.Fatal(err)
	}
	if batch, _ := tree.update([]string{root}); len(batch) != 1 || batch[0].Object != nil || batch[0].Key.Name != "n-7" {
		t.Errorf("a file went, and the changes are %v", batch)
	}
}

// TestWhatAFileTakes holds what is kept of a file with a ServiceEntry, of thousands that are read at once, and that nothing that was needed for reading them lies so among it that
// its pages cannot be given back.
func TestWhatAFileTakes(t *testing.T) {
	const files, mostLive = 4000, 900
	root := t.TempDir()
	fill(t, root, files)
	watcher, err := fsnotify.NewWatcher()
	must(t, err)
	defer func() { _ = watcher.Close() }()
	before := heap()
	tree := newTree(root, watcher, slog.New(slog.DiscardHandler))
	batch, _ := tree.update([]string{root})
	objects := make([]*config.Object, len(batch)) // as the registry keeps them
	for i, c := range batch {
		objects[i] = c.Object
	}
	batch = nil
	after := heap()
	if len(objects) != files || len(batch) > 0 {
		t.Fatalf("%d objects", len(objects))
	}
	live, inUse := (after.HeapAlloc-before.HeapAlloc)/files, (after.HeapInuse-before.HeapInuse)/files
	t.Logf("of %d files %d bytes each are live, in %d that are in use", files, live, inUse)
	if most := live * 5 / 4; live > mostLive || inUse > most {
		t.Errorf("of a file %d bytes are live, want %d at most, in %d that are in use, want %d at most", live, mostLive, inUse, most)
	}
	runtime.KeepAlive(tree)
	runtime.KeepAlive(objects)
}

// heap is what is in use when what is garbage is given back: pools lose what they hold with the second collection.
func heap() (m runtime.MemStats) {
	runtime.GC()
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	return m
}
