package world

import (
	"os"
	"syscall"
	"testing"
)

// SmallDisk is a file system of so many bytes, such as "size=1m", until the test ends. It skips the test where none can be mounted.
func SmallDisk(t testing.TB, options string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() { // runs after those of what is opened on it
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
