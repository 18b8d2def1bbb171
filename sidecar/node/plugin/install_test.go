package plugin

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func installed(t *testing.T) (*Install, string) {
	t.Helper()
	dir := t.TempDir()
	i := &Install{
		BinDir: filepath.Join(dir, "bin"), ConfDir: filepath.Join(dir, "net.d"), Program: filepath.Join(dir, "program"), Entry: entry, Log: slog.New(slog.DiscardHandler),
	}
	for _, d := range []string{i.BinDir, i.ConfDir} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(i.ConfDir, "10-net.conflist")
	put(t, i.Program, "one")
	put(t, path, network)
	return i, path
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// becomes waits for what another goroutine does.
func becomes(t *testing.T, what string, f func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !f(); {
		if time.Now().After(limit) {
			t.Fatal(what)
		}
		<-time.After(time.Millisecond)
	}
}

// TestKeep: the plugin is put there, again when somebody rewrites or removes what was put, and goes without a trace.
func TestKeep(t *testing.T) {
	i, path := installed(t)
	i.Wait()
	if i.Lacks() == nil {
		t.Error("it is installed before it was")
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { i.Keep(ctx); close(ended) }()
	there := func() bool { return strings.Contains(read(t, path), entry.Type) && i.Lacks() == nil }
	becomes(t, "it is not installed", there)
	binary := filepath.Join(i.BinDir, entry.Type)
	if info, err := os.Stat(binary); err != nil || info.Mode().Perm() != 0o755 || read(t, binary) != "one" {
		t.Errorf("the binary: %v, %v", info, err)
	}
	put(t, path, network)
	becomes(t, "it is not put back into a list that was rewritten", there)
	first := filepath.Join(i.ConfDir, "05-other.conflist")
	put(t, first, network)
	becomes(t, "it is not in a network that comes before", func() bool { return strings.Contains(read(t, first), entry.Type) })
	if err := os.Remove(binary); err != nil {
		t.Fatal(err)
	}
	becomes(t, "the binary does not come back", func() bool { _, err := os.Stat(binary); return err == nil })
	end()
	<-ended
	if !there() {
		t.Error("it does not stay when the agent ends")
	}
	if err := i.Remove(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, first} {
		if strings.Contains(read(t, p), entry.Type) {
			t.Errorf("%s still calls it", p)
		}
	}
	for _, dir := range []string{i.BinDir, i.ConfDir} {
		left, err := os.ReadDir(dir)
		if want := map[string]int{i.BinDir: 0, i.ConfDir: 2}[dir]; err != nil || len(left) != want {
			t.Errorf("left in %s: %v (%v)", dir, left, err)
		}
	}
}

// TestNewBinary: another version replaces the one that is there, also where it has the same size.
func TestNewBinary(t *testing.T) {
	i, _ := installed(t)
	for _, text := range []string{"one", "two"} {
		put(t, i.Program, text)
		i.seen = nil // as a new agent
		if err := i.ensure(); err != nil {
			t.Fatal(err)
		}
		if got := read(t, filepath.Join(i.BinDir, entry.Type)); got != text {
			t.Errorf("installed %q, want %q", got, text)
		}
	}
}

// TestNothingToChain: without a network's list there is nothing to be last in, and nothing is written.
func TestNothingToChain(t *testing.T) {
	i, path := installed(t)
	put(t, filepath.Join(i.ConfDir, "00-single.conf"), `{"type": "bridge"}`)
	if err := i.ensure(); err == nil || !strings.Contains(err.Error(), "00-single.conf") {
		t.Errorf("%v", err)
	}
	if read(t, path) != network {
		t.Error("a network that is not used is changed")
	}
	for _, p := range []string{path, filepath.Join(i.ConfDir, "00-single.conf")} {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.ensure(); err == nil || !strings.Contains(err.Error(), "there is no network configuration") {
		t.Errorf("%v", err)
	}
}
