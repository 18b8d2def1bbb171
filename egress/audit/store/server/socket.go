package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/query"
)

// lockStore takes the folder for this process. The lock ends with the process, however it ends.
func lockStore(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "server.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit server: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		f.Close()
		return nil, fmt.Errorf("audit server: %s is served by a running audit server already (process %s): stop it or "+
			"give another --data", dir, strings.TrimSpace(string(holder)))
	}
	err = errors.Join(f.Truncate(0), func() error {
		_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		return err
	}())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("audit server: %w", err)
	}
	return f, nil
}

// listen makes the socket, mode 0600 from its first moment at that name. Call it with the lock held: a socket that is
// there already then belongs to nobody and is replaced.
func listen(path, private string) (net.Listener, error) {
	if len(path) > query.MaxSocketPath {
		return nil, fmt.Errorf("audit server: the socket's path %s is longer than %d bytes: give a shorter --data", path, query.MaxSocketPath)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("audit server: %s is no socket: remove it", path)
	}
	// Made in a folder that only this user can enter, and moved when its mode is right.
	fresh := filepath.Join(private, "s")
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("audit server: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("audit server: %w", err)
	}
	l.SetUnlinkOnClose(false) // its name changes
	if err := errors.Join(os.Chmod(fresh, 0o600), os.Rename(fresh, path)); err != nil {
		return nil, errors.Join(fmt.Errorf("audit server: %w", err), l.Close())
	}
	return l, nil
}
