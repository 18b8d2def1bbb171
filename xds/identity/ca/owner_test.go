package ca

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A rotation that root takes leaves everything to the one whom the data folder belongs to.
func TestRootLeavesFilesToTheirOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	const owner = 1337
	data := t.TempDir()
	if err := os.Chown(data, owner, owner); err != nil {
		t.Fatal(err)
	}
	open(t, Options{DataDir: data})
	for range 2 {
		if _, err := (Rotation{Store: InFolder(data)}).Advance(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Sys().(*syscall.Stat_t).Uid != owner {
			t.Errorf("%s is of %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// What is wrong with a rotation's own files stops the rotation, and no controller.
func TestBrokenRotationFiles(t *testing.T) {
	for _, name := range []string{RotationFile, NextKeyFile, NextCertificateFile} {
		data := t.TempDir()
		open(t, Options{DataDir: data})
		r := Rotation{Store: InFolder(data)}
		if _, err := r.Advance(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, "ca", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Advance(t.Context(), true); err == nil {
			t.Errorf("%s: a step was taken", name)
		}
		if c := open(t, Options{DataDir: data}); len(c.Bundle()) != 2 {
			t.Errorf("%s: %d roots", name, len(c.Bundle()))
		}
	}
}
