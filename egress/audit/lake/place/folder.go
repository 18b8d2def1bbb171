package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/durable"
)

// folder is a lake on a file system. What is written has a name that begins with a dot until it is whole.
type folder struct{ dir string }

// Dir is the folder that a place is, if it is one.
func Dir(p Place) (dir string, is bool) {
	f, is := p.(folder)
	return f.dir, is
}

func (f folder) String() string { return f.dir }

func (f folder) URI(name string) string { return "file://" + f.path(name) }

func (f folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

func (f folder) Put(ctx context.Context, name, file string) error {
	from, err := os.Open(file)
	if err != nil {
		return err
	}
	defer from.Close()
	return f.write(ctx, name, from, false)
}

func (f folder) Write(ctx context.Context, name string, data []byte, once bool) error {
	return f.write(ctx, name, strings.NewReader(string(data)), once)
}

func (f folder) write(ctx context.Context, name string, from io.Reader, once bool) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := f.path(name)
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	part, err := os.OpenFile(filepath.Join(dir, "."+filepath.Base(path)+".part"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, durable.Remove(part.Name()))
		}
	}()
	_, err = io.Copy(part, from)
	if err = errors.Join(err, part.Sync(), part.Close()); err != nil {
		return err
	}
	if once {
		if err := os.Link(part.Name(), path); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", name, ErrExists)
		} else if err != nil {
			return err
		}
		return errors.Join(os.Remove(part.Name()), durable.SyncDir(dir))
	}
	return errors.Join(os.Rename(part.Name(), path), durable.SyncDir(dir))
}

func (f folder) Get(ctx context.Context, name, file string) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	from, err := os.Open(f.path(name))
	if err != nil {
		return gone(name, err)
	}
	defer from.Close()
	to, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

func (f folder) Read(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(f.path(name))
	return data, gone(name, err)
}

func gone(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, ErrGone)
	}
	return err
}

func (f folder) List(ctx context.Context, prefix string) (names []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	top := f.path(prefix[:strings.LastIndex(prefix, "/")+1])
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() || strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		name, err := filepath.Rel(f.dir, path)
		if name = filepath.ToSlash(name); err == nil && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

func (f folder) Delete(ctx context.Context, names []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, durable.Remove(f.path(name)))
	}
	return errors.Join(errs...)
}
