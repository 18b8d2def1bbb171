package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// file is an entry of a layer: a link when Link is set, a directory when the path ends in "/", a copy of From when
// that is set, Content otherwise.
type file struct {
	Path    string // absolute
	Mode    int64
	From    string
	Content string
	Link    string
	UID     int
}

// layer is an uncompressed layer of the files. It is never sent over a network, and what is not compressed is quick.
func layer(files ...file) (v1.Layer, error) {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	files = slices.CompactFunc(files, func(a, b file) bool { return a.Path == b.Path })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := add(w, f); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return static.NewLayer(out.Bytes(), types.OCIUncompressedLayer), nil
}

func add(w *tar.Writer, f file) error {
	// No times and no names of users: the same files make the same layer on any day and machine.
	header := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: f.Mode, Uid: f.UID, Gid: f.UID, Format: tar.FormatPAX}
	switch {
	case f.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
		return w.WriteHeader(header)
	case strings.HasSuffix(f.Path, "/"):
		header.Typeflag = tar.TypeDir
		return w.WriteHeader(header)
	}
	var content io.Reader = strings.NewReader(f.Content)
	header.Typeflag, header.Size = tar.TypeReg, int64(len(f.Content))
	if f.From != "" {
		opened, err := os.Open(f.From)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		info, err := opened.Stat()
		if err != nil {
			return err
		}
		content, header.Size = opened, info.Size()
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}
