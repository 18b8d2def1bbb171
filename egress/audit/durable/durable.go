// Package durable writes files that are whole whenever the machine stops.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Replace puts content in the place of a file, for its owner alone: after a crash either the old or the new one is there.
func Replace(path string, content []byte) error {
	fresh := path + ".new"
	err := Write(fresh, content)
	if err == nil {
		err = os.Rename(fresh, path)
	}
	if err != nil {
		return errors.Join(err, Remove(fresh))
	}
	return SyncDir(filepath.Dir(path))
}

// Write writes a file anew, for its owner alone, and waits until its content is on the disk. Its name may not be: see SyncDir.
func Write(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Full says whether an error is of a disk that has no room, or no more for this user.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// Remove removes a file that may be gone already.
func Remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes the names in a folder last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
