package secrets

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func obtain(t testing.TB, m *mesh) *certificate {
	t.Helper()
	key, csr, err := newRequest()
	if err != nil {
		t.Fatal(err)
	}
	chain, err := m.ca.Sign(csr, checkout, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := readResponse(chain, key, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSaveAndLoad(t *testing.T) {
	m := newMesh(t)
	parent := filepath.Join(t.TempDir(), "state")
	folder := filepath.Join(parent, "identity")
	if _, _, err := load(folder); !errors.Is(err, errNoState) {
		t.Errorf("load of nothing: %v", err)
	}
	for range 3 {
		c := obtain(t, m)
		if err := save(folder, c, m.ca.Bundle()); err != nil {
			t.Fatal(err)
		}
		got, roots, err := load(folder)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.chain, c.chain) || !bytes.Equal(got.key, c.key) || len(roots) != 1 {
			t.Error("what was loaded is not what was saved")
		}
		if since := time.Since(got.obtained); since < 0 || since > time.Minute {
			t.Errorf("obtained %s ago", since)
		}
	}
	if info, err := os.Stat(filepath.Join(folder, keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key's mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// What cannot be a certificate with its key is not served, and does not stop the agent.
func TestLoadRefuses(t *testing.T) {
	m := newMesh(t)
	other := obtain(t, m)
	for name, spoil := range map[string]func(folder string) error{
		"another key":  func(f string) error { return os.WriteFile(filepath.Join(f, keyFile), other.key, 0o600) },
		"empty key":    func(f string) error { return os.WriteFile(filepath.Join(f, keyFile), nil, 0o600) },
		"half a chain": func(f string) error { return os.Truncate(filepath.Join(f, chainFile), 100) },
		"no chain":     func(f string) error { return os.Remove(filepath.Join(f, chainFile)) },
		"no roots":     func(f string) error { return os.Remove(filepath.Join(f, rootsFile)) },
		"empty roots":  func(f string) error { return os.Truncate(filepath.Join(f, rootsFile), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "identity")
			if err := save(folder, obtain(t, m), m.ca.Bundle()); err != nil {
				t.Fatal(err)
			}
			if err := spoil(folder); err != nil {
				t.Fatal(err)
			}
			if _, _, err := load(folder); err == nil {
				t.Error("load succeeded")
			}
			w := newWorkload(t, Options{Folder: folder, CARootFile: m.rootFile()})
			if serial(w) != "" {
				t.Error("it is served")
			}
			if err := save(folder, other, m.ca.Bundle()); err != nil {
				t.Errorf("it cannot be replaced: %v", err)
			}
		})
	}
}

// A save that was killed half-way leaves the former certificate whole, and its leavings go at the next start.
func TestLeavingsAreSwept(t *testing.T) {
	m := newMesh(t)
	parent := t.TempDir()
	folder := filepath.Join(parent, "identity")
	held := obtain(t, m)
	if err := save(folder, held, m.ca.Bundle()); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(parent, ".identity-4711"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(parent, ".identity-4711", keyFile), held.key, 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorkload(t, Options{Folder: folder, CARootFile: m.rootFile()})
	if serial(w) != held.leaf.SerialNumber.String() {
		t.Error("the former certificate is not served")
	}
	if left, _ := os.ReadDir(parent); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStoredAt(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ modified, want time.Time }{
		{noon.Add(-time.Hour), noon.Add(-time.Hour)},
		{noon.Add(time.Hour), noon},                           // the clock was set back
		{noon.Add(-48 * time.Hour), noon.Add(-time.Hour * 3)}, // the file was copied without its time
	} {
		if got := storedAt(c.modified, noon.Add(-3*time.Hour), noon); !got.Equal(c.want) {
			t.Errorf("storedAt(%s) = %s, want %s", c.modified, got, c.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"no folder":     {CARootFile: empty},
		"no root file":  {Folder: t.TempDir()},
		"missing roots": {Folder: t.TempDir(), CARootFile: "/nonexistent"},
		"empty roots":   {Folder: t.TempDir(), CARootFile: empty},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: New succeeded", name)
		}
	}
}
