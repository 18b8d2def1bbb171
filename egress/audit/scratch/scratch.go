// Package scratch gives folders for what nobody keeps. What a process leaves in one when it is killed is removed when the next folder is made: nobody else does that where the system's folder
// for such things outlasts a process, as a pod's /tmp does.
//
// Out: a folder below os.TempDir, for this user alone, and its end. Imports the standard library alone.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const prefix = "sallyport-scratch-"

// Folder is one that goes with its process.
type Folder struct {
	Path string
	held *os.File // with a lock, which the kernel takes back when the process ends
}

// New makes one, and removes those whose processes have ended.
func New() (*Folder, error) {
	sweep()
	unheld, err := os.MkdirTemp("", ".sallyport-new-") // nobody looks at it until it is held
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: filepath.Join(filepath.Dir(unheld), prefix+strings.TrimPrefix(filepath.Base(unheld), ".sallyport-new-"))}
	if f.held, err = hold(unheld); err == nil {
		err = os.Rename(unheld, f.Path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a folder for a while: %w", err), os.Remove(unheld), f.release())
	}
	return f, nil
}

// Close removes it, and what is in it.
func (f *Folder) Close() error { return errors.Join(os.RemoveAll(f.Path), f.release()) }

func (f *Folder) release() error {
	if f.held == nil {
		return nil
	}
	return f.held.Close()
}

// hold takes a folder that nobody else has.
func hold(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sweep removes this user's folders that nobody has any more. What cannot be removed stays, as it would without.
func sweep() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		left := Folder{Path: filepath.Join(os.TempDir(), e.Name())}
		if left.held, err = hold(left.Path); err != nil {
			continue
		}
		if info, err := left.held.Stat(); err == nil && owner(info) == os.Getuid() {
			_ = left.Close()
		} else {
			_ = left.release()
		}
	}
}

func owner(info os.FileInfo) int {
	if s, is := info.Sys().(*syscall.Stat_t); is {
		return int(s.Uid)
	}
	return -1
}
