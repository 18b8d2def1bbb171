package pemfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Once returns the content of path, which make's result becomes when there is no such file yet. Of several
// processes that find it missing one wins and all return the winner's content. The folder must exist.
func Once(path string, perm fs.FileMode, make func() ([]byte, error)) ([]byte, error) {
	content, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return content, err
	}
	if content, err = make(); err != nil {
		return nil, err
	}
	temporary, err := writeTemporary(path, perm, content)
	if err != nil {
		return nil, err
	}
	defer os.Remove(temporary)
	// link(2) fails where rename(2) would replace: the first one stays.
	if err := os.Link(temporary, path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return os.ReadFile(path)
		}
		return nil, fmt.Errorf("make %s: %w", path, err)
	}
	return content, syncFolder(filepath.Dir(path))
}

// Replace puts content in the place of path in one step: readers see the old or the new, never a part.
func Replace(path string, perm fs.FileMode, content []byte) error {
	temporary, err := writeTemporary(path, perm, content)
	if err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncFolder(filepath.Dir(path))
}

// writeTemporary writes and syncs content beside path and returns the file's name.
func writeTemporary(path string, perm fs.FileMode, content []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
		}
	}()
	if _, err := f.Write(content); err != nil {
		return "", err
	}
	if err := f.Chmod(perm); err != nil {
		return "", err
	}
	if err := GiveToOwner(f.Name()); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// GiveToOwner makes path belong to whom its folder belongs to, when this process is root: what root's commands leave
// in a data folder has to be readable for the controller that runs as somebody else. A root that may not do so (a container
// without the capability) leaves it as it is.
func GiveToOwner(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}
