package dir

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

func fill(t testing.TB, root string, n int) {
	for i := range n {
		write(t, fmt.Sprintf("%s/%05d.yaml", root, i), entry(fmt.Sprintf("e%d", i), fmt.Sprintf("h%d.example.com", i)))
	}
}

// BenchmarkStart reads a directory of 10,000 files with a ServiceEntry each.
func BenchmarkStart(b *testing.B) {
	root := b.TempDir()
	fill(b, root, 10_000)
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		err := New(root, Options{Logger: slog.New(slog.DiscardHandler)}).Run(ctx, func(c []config.Change, _ []admission.Finding) {
			if len(c) != 10_000 {
				b.Errorf("%d changes", len(c))
			}
			cancel()
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChange changes one file of 10,000 and waits for the batch; 10 ms of it are the debounce.
func BenchmarkChange(b *testing.B) {
	root := b.TempDir()
	fill(b, root, 10_000)
	batches := make(chan int, 100)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() {
		done <- New(root, Options{Debounce: 10 * time.Millisecond}).Run(ctx, func(c []config.Change, _ []admission.Finding) { batches <- len(c) })
	}()
	<-batches
	for i := 0; b.Loop(); i++ {
		write(b, root+"/05000.yaml", entry("e5000", fmt.Sprintf("h%d.org", i)))
		if n := <-batches; n != 1 {
			b.Fatalf("%d changes", n)
		}
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// TestOneChangeReadsOneFile counts the files that are read again.
func TestOneChangeReadsOneFile(t *testing.T) {
	root := t.TempDir()
	fill(t, root, 50)
	watcher, err := fsnotify.NewWatcher()
	must(t, err)
	defer watcher.Close()
	tree := newTree(root, watcher, slog.New(slog.DiscardHandler))
	if batch, _ := tree.update([]string{root}); len(batch) != 50 {
		t.Fatalf("%d objects", len(batch))
	}
	for _, c := range []struct {
		path string
		want int
	}{{root + "/00007.yaml", 1}, {root, 0}} {
		if got := tree.visit(c.path); len(got) != c.want {
			t.Errorf("%d files to read at %s, want %d", len(got), c.path, c.want)
		}
	}
	write(t, root+"/00008.yaml", entry("e8", "changed.example.com"))
	if got := tree.visit(root); len(got) != 1 {
		t.Errorf("%d files to read in a scan after one change", len(got))
	}
}
