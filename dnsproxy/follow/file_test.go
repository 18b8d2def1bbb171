package follow

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func TestFileFollows(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "names")
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan string, 8), make(chan error, 1)
	go func() { done <- File(ctx, path, func(b []byte) { seen <- string(b) }) }()

	write := func(to, content string) {
		t.Helper()
		if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(content string) {
		t.Helper()
		for {
			select {
			case got := <-seen:
				if got == "" { // os.WriteFile has cut it off, and not written yet
					continue
				}
				if got != content {
					t.Fatalf("content %q, want %q", got, content)
				}
				return
			case <-time.After(time.Minute):
				t.Fatalf("no call with %q", content)
			}
		}
	}
	write(path, "one")
	want("one")
	write(path+".new", "two")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	want("two")
	write(path, "three")
	want("three")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
