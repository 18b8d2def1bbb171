//go:build unix

package dir

import (
	"io/fs"
	"syscall"
)

// identity tells a file from others, whatever their names.
type identity struct{ device, inode uint64 }

func identityOf(info fs.FileInfo) identity {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return identity{uint64(s.Dev), uint64(s.Ino)} //nolint:unconvert // of other types elsewhere
	}
	return identity{}
}
