package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Read reads a file that somebody names: a regular one, a pipe that a shell made ("<(helm template .)", /dev/stdin), or /dev/null. Others are refused before they are read, since they
// may have no end, or nobody who writes to them. Of more than limit bytes it reads limit+1 at most, so that whoever bounds its input can say so.
func Read(name string, limit int64) ([]byte, error) {
	// without O_NONBLOCK opening a named pipe waits for its writer
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := readable(f, info, name); err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	_, err = text.ReadFrom(io.LimitReader(f, limit+1))
	return text.Bytes(), err
}

func readable(f *os.File, info fs.FileInfo, name string) error {
	what := ""
	switch kind := info.Mode().Type(); {
	case kind == 0, name == os.DevNull, kind == fs.ModeNamedPipe && unnamed(f):
		return nil
	case kind == fs.ModeNamedPipe:
		what = "a named pipe"
	case kind == fs.ModeDir:
		what = "a directory"
	default:
		what = "a device"
	}
	return &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is %s: %w", what, ErrNoFile)}
}

// ErrNoFile is of what is read as a file and is none.
var ErrNoFile = errors.New("name a file, or bring what it says by standard input")

// unnamed says whether a pipe has no name in a folder: who made it gave it a writer, or it is at its end.
func unnamed(f *os.File) (yes bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Control(func(fd uintptr) {
		var at unix.Statfs_t
		yes = unix.Fstatfs(int(fd), &at) == nil && at.Type == unix.PIPEFS_MAGIC
	})
	return yes && err == nil
}
