//go:build !linux

package dir

import (
	"os"
	"path/filepath"
)

// stampIn is stampOf for a file in an open directory; of what is no regular file it is none that one has.
func stampIn(dir *os.File, name string) (stamp, error) {
	info, err := os.Stat(filepath.Join(dir.Name(), name))
	if err != nil {
		return stamp{}, err
	}
	if !info.Mode().IsRegular() {
		return stamp{size: -1}, nil
	}
	return stampOf(info), nil
}
