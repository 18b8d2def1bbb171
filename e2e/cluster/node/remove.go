package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

const pollEvery = 50 * time.Millisecond

// Running gives the process id of the first process of the node in dir, as the host counts, and false when there is
// no living node.
func Running(dir string) (pid int, ok bool, err error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = lock.Close() }()
	// The kernel drops the node's lock when it ends, however it ends: a pid file alone could be stale.
	switch err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case err == nil:
		return 0, false, nil
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return 0, false, err
	}
	pid, err = readPID(dir)
	return pid, err == nil, err
}

// Remove ends the node in dir, if there is one, and removes all that is left of it: it may be called in any state.
func Remove(ctx context.Context, dir string) error {
	pid, running, err := Running(dir)
	if err != nil {
		return err
	}
	if running {
		// The kernel ends every process of the namespace with its first one.
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending the node (process %d): %w", pid, err)
		}
	}
	for _, undo := range []func() error{
		func() error { return ended(dir) },
		removeLink,
		removeCgroups,
		func() error { return restoreSysctls(dir) },
		func() error { return os.RemoveAll(dir) },
	} {
		if err := wait(ctx, undo); err != nil {
			return err
		}
	}
	return nil
}

// ended is nil when no process of the node is left. A first process that was killed gives its lock away before the
// others have ended, and becomes a zombie, or nothing, after.
func ended(dir string) error {
	pid, running, err := Running(dir)
	if err != nil {
		return err
	}
	if !running {
		if pid, err = readPID(dir); err != nil {
			return nil //nolint:nilerr // there was no node, or not for long enough to be written down
		}
	}
	// proc_pid_stat(5): "PID (init) S …". Another process that got the number has another name.
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil //nolint:nilerr // it is gone
	}
	name, rest, ok := strings.Cut(string(stat), ") ")
	if ok && strings.HasSuffix(name, "(init") && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
		return fmt.Errorf("the node (process %d) does not end", pid)
	}
	return nil
}

func readPID(dir string) (int, error) {
	content, err := os.ReadFile(filepath.Join(dir, pidName))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// removeLink helps the kernel, which removes the cable some moments after the last process of the node.
func removeLink() error {
	link, err := netlink.LinkByName(Link)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := netlink.LinkDel(link); err != nil && !errors.Is(err, syscall.ENODEV) {
		return fmt.Errorf("removing %s: %w", Link, err)
	}
	return nil
}

// wait repeats f until it is nil. What the kernel takes back after a kill goes in its own time.
func wait(ctx context.Context, f func() error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-tick.C:
		}
	}
}
