package ca

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// lock waits for the file's lock, which the kernel releases when its holder dies.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := pemfile.GiveToOwner(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f.Close, nil
}
