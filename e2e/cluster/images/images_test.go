package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestSameFilesSameImage(t *testing.T) {
	names := append([]string{Pause, App}, Shipped...)
	first := build(t, names...)
	second := build(t, names...)
	for i := range first {
		if first[i].Digest != second[i].Digest {
			t.Errorf("%s: digest %s, then %s", first[i].Name, first[i].Digest, second[i].Digest)
		}
	}
	if first[0].Digest == first[1].Digest {
		t.Error("two images have one digest")
	}
}

func TestUnknownAndMissing(t *testing.T) {
	if _, err := Build(t.Context(), "nonesuch"); err == nil {
		t.Error("an image that nobody knows was built")
	}
	b := &builder{root: t.TempDir(), scratch: t.TempDir(), system: system{arch: runtime.GOARCH, dir: "/"}}
	if _, err := b.build(t.Context(), App); !errors.Is(err, ErrNoSource) {
		t.Errorf("image of a program that the checkout does not have: %v", err)
	}
	if _, err := b.build(t.Context(), Controller); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("image of a program that is not built: %v", err)
	}
}

// build assembles images, and skips the test where the programs were not built.
func build(t *testing.T, names ...string) []Image {
	t.Helper()
	built, err := Build(t.Context(), names...)
	if errors.Is(err, ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestArchive(t *testing.T) {
	built := build(t, Pause, App)
	var out bytes.Buffer
	if err := WriteArchive(&out, built...); err != nil {
		t.Fatal(err)
	}
	files := untar(t, &out)
	var index v1.IndexManifest
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != len(built) {
		t.Fatalf("%d manifests, want %d", len(index.Manifests), len(built))
	}
	for i, m := range index.Manifests {
		if m.Digest.String() != built[i].Digest || m.Annotations[nameAnnotation] != Ref(built[i].Name) {
			t.Errorf("manifest %d: %+v", i, m)
		}
		manifest, err := v1.ParseManifest(bytes.NewReader(blob(t, files, m.Digest)))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range append(manifest.Layers, manifest.Config) {
			if got := blob(t, files, l.Digest); int64(len(got)) != l.Size {
				t.Errorf("blob %s: %d bytes, want %d", l.Digest, len(got), l.Size)
			}
		}
	}
}

func blob(t *testing.T, files map[string][]byte, hash v1.Hash) []byte {
	t.Helper()
	content := files["blobs/sha256/"+hash.Hex]
	got, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil || got != hash {
		t.Fatalf("blob %s holds %s (%v)", hash, got, err)
	}
	return content
}

func TestLayer(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("program"), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := newLayer(
		file{Path: "/usr/bin/x", From: filepath.Join(dir, "x"), Mode: 0o755},
		file{Path: "/tmp/", Mode: 0o1777},
		file{Path: "/bin", Link: "usr/bin"},
		file{Path: "/usr/bin/x", Content: "again", Mode: 0o600},
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, bytes.NewReader(content))
	if len(files) != 3 || string(files["usr/bin/x"]) != "program" {
		t.Errorf("files: %q", files)
	}
}

func untar(t *testing.T, r io.Reader) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for reader := tar.NewReader(r); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = content
	}
}
