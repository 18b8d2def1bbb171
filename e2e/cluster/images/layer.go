package images

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
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

// layer is a compressed layer, in memory.
type layer struct {
	compressed     []byte
	digest, diffID v1.Hash
}

// newLayer makes a layer of the files: sorted, without times and names of users, so that the same files make the same
// layer on any day and machine. It is compressed quickly rather than well, since tests make each anew.
func newLayer(files ...file) (*layer, error) {
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b file) int { return cmp.Compare(a.Path, b.Path) })
	files = slices.CompactFunc(files, func(a, b file) bool { return a.Path == b.Path })
	var out bytes.Buffer
	whole := sha256.New()
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(io.MultiWriter(zip, whole))
	for _, f := range files {
		if err := add(w, f); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return nil, err
	}
	l := &layer{compressed: out.Bytes(), diffID: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(whole.Sum(nil))}}
	l.digest, _, err = v1.SHA256(bytes.NewReader(l.compressed))
	return l, err
}

// Digest is of the compressed bytes.
func (l *layer) Digest() (v1.Hash, error) { return l.digest, nil }

// DiffID is the digest of the uncompressed bytes.
func (l *layer) DiffID() (v1.Hash, error) { return l.diffID, nil }

// Compressed reads what is in the archive.
func (l *layer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.compressed)), nil
}

// Uncompressed reads the tar.
func (l *layer) Uncompressed() (io.ReadCloser, error) {
	return gzip.NewReader(bytes.NewReader(l.compressed))
}

// Size is that of the compressed bytes.
func (l *layer) Size() (int64, error) { return int64(len(l.compressed)), nil }

// MediaType is that of a gzipped layer of the OCI image specification.
func (l *layer) MediaType() (types.MediaType, error) { return types.OCILayer, nil }

func add(w *tar.Writer, f file) error {
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
