package pemfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

func TestOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	got := make([]string, 32)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			content, err := Once(path, 0o640, func() ([]byte, error) { return []byte(strconv.Itoa(i)), nil })
			if err != nil {
				t.Error(err)
			}
			got[i] = string(content)
		})
	}
	group.Wait()
	for _, s := range got {
		if s != got[0] {
			t.Fatalf("two winners: %s and %s", s, got[0])
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := Once(path, 0o640, func() ([]byte, error) { return nil, errors.New("called") }); err != nil {
		t.Errorf("made again: %v", err)
	}
}

func TestOnceWhoseMakingFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	broken := errors.New("no entropy")
	if _, err := Once(path, 0o600, func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was left")
	}
}

// Readers see the old or the new content, never a part.
func TestReplace(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "bundle.pem")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<15)}
	if err := Replace(path, 0o644, contents[0]); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range 50 {
			if err := Replace(path, 0o644, contents[i%2]); err != nil {
				t.Error(err)
			}
		}
	})
	for range 200 {
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, contents[0]) && !bytes.Equal(got, contents[1]) {
			t.Fatalf("read %d bytes, %v", len(got), err)
		}
	}
	group.Wait()
	if left, _ := os.ReadDir(folder); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
	if err := Replace(filepath.Join(folder, "no", "such"), 0o600, nil); err == nil {
		t.Error("wrote into a folder that is not there")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if key, err := ParseKey(text); err == nil && key == nil {
			t.Fatal("neither key nor error")
		}
		if all, err := ParseCertificates(text); err == nil && len(all) == 0 {
			t.Fatal("neither certificate nor error")
		}
	})
}
