package dir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
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
