package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/sallyport/sallyport/egress/audit/lake/place"
)

// storage is how the library reaches the table's own files, those beside the data: by the lake's place and credentials, whatever a catalog hands out.
type storage struct {
	ctx context.Context // of a pass: the library's calls have none
	at  place.Place
}

// dataFolders is how the names of the lake's files begin. What is in them belongs to the lake's writers.
const dataFolders = "region="

// name is a file's within the lake.
func (s storage) name(uri string) (string, error) {
	name, inside := strings.CutPrefix(uri, strings.TrimSuffix(s.at.URI(""), "/")+"/") // and not in a neighbour of a longer name
	if dir, local := place.Dir(s.at); local && !inside {
		name, inside = strings.CutPrefix(uri, dir+"/")
	}
	if !inside || !fs.ValidPath(name) {
		return "", fmt.Errorf("%s is not in the lake %s: the table's location must be there", uri, s.at)
	}
	return name, nil
}

func (s storage) failed(op, uri string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, place.ErrGone) {
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: op, Path: uri, Err: err}
}

func (s storage) ReadFile(uri string) ([]byte, error) {
	name, err := s.name(uri)
	if err != nil {
		return nil, s.failed("open", uri, err)
	}
	data, err := s.at.Read(s.ctx, name)
	return data, s.failed("open", uri, err)
}

// Open implements iceio.IO. Manifests are read as a whole: they have a few megabytes.
func (s storage) Open(uri string) (iceio.File, error) {
	data, err := s.ReadFile(uri)
	if err != nil {
		return nil, err
	}
	return &object{Reader: bytes.NewReader(data), name: path.Base(uri)}, nil
}

// Remove implements iceio.IO: old metadata goes, data never does.
func (s storage) Remove(uri string) error {
	name, err := s.name(uri)
	if err != nil || strings.HasPrefix(name, dataFolders) {
		return nil //nolint:nilerr // it is not the table's to remove
	}
	return s.failed("remove", uri, s.at.Delete(s.ctx, []string{name}))
}

func (s storage) WriteFile(uri string, data []byte) error {
	name, err := s.name(uri)
	if err == nil && strings.HasPrefix(name, dataFolders) {
		err = errors.New("the lake's files are its writers'")
	}
	if err == nil {
		err = s.at.Write(s.ctx, name, data, false)
	}
	return s.failed("create", uri, err)
}

func (s storage) Create(uri string) (iceio.FileWriter, error) {
	if _, err := s.name(uri); err != nil {
		return nil, s.failed("create", uri, err)
	}
	return &draft{storage: s, uri: uri}, nil
}

// object is a file that was read.
type object struct {
	*bytes.Reader
	name string
}

func (o *object) Close() error               { return nil }
func (o *object) Stat() (fs.FileInfo, error) { return o, nil }
func (o *object) Name() string               { return o.name }
func (o *object) Size() int64                { return o.Reader.Size() }
func (o *object) Mode() fs.FileMode          { return 0o400 }
func (o *object) ModTime() time.Time         { return time.Time{} }
func (o *object) IsDir() bool                { return false }
func (o *object) Sys() any                   { return nil }

// draft is a file that is there when it is closed.
type draft struct {
	bytes.Buffer
	storage storage
	uri     string
	closed  bool
}

func (d *draft) ReadFrom(r io.Reader) (int64, error) { return d.Buffer.ReadFrom(r) }

func (d *draft) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	return d.storage.WriteFile(d.uri, d.Bytes())
}
