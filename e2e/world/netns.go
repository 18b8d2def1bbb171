package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	netnsDir    = "/run/netns"
	etcNetnsDir = "/etc/netns" // `ip netns exec` mounts what lies in there over /etc
)

// ErrNoNamespaces says that this process may not make network namespaces.
var ErrNoNamespaces = errors.New("network namespaces cannot be made here")

// CanNamespace tells whether this process may make namespaces, and says why if not.
func CanNamespace() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: that takes root", ErrNoNamespaces)
	}
	for _, tool := range []string{"ip", "iptables", "setpriv", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: %s is missing, `make tools` installs it", ErrNoNamespaces, tool)
		}
	}
	// A thread that is thrown away tries it: containers often have root without the right.
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS)
		if err == nil { // `ip netns exec` does this too
			err = unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, "")
		}
		result <- err
	}()
	if err := <-result; err != nil {
		return fmt.Errorf("%w: %w", ErrNoNamespaces, err)
	}
	return nil
}

// inNamespace calls f on a thread inside the named namespace. Sockets that f opens stay there. f must not start
// processes or goroutines that expect to be inside too.
func inNamespace(name string, f func() error) error {
	target, err := os.Open(filepath.Join(netnsDir, name))
	if err != nil {
		return err
	}
	defer func() { _ = target.Close() }()

	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer func() { _ = home.Close() }()
	if err := unix.Setns(int(target.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("entering namespace %s: %w", name, err)
	}
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		// The thread stays locked and ends with its goroutine: it must not serve anybody else.
		return errors.Join(err, fmt.Errorf("leaving namespace %s: %w", name, back))
	}
	runtime.UnlockOSThread()
	return err
}

// deleteNamespace kills what runs in the namespace and removes it with its files below /etc/netns. A namespace that
// is gone already is no error.
func deleteNamespace(name string) error {
	var errs []error
	if _, err := os.Stat(filepath.Join(netnsDir, name)); err == nil {
		errs = append(errs, killAll(name))
		if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("ip netns del %s: %w: %s", name, err, out))
		}
	}
	errs = append(errs, os.RemoveAll(filepath.Join(etcNetnsDir, name)))
	return errors.Join(errs...)
}

// killAll kills every process inside the namespace and waits until none is left.
func killAll(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return killIn(ctx, name, func(int) bool { return true })
}

// killIn kills the processes inside the namespace that are meant, and waits until they are gone. They leave the namespace before: the last of a process's threads
// lets go of its sockets.
func killIn(ctx context.Context, name string, meant func(pid int) bool) error {
	killed := map[int]Descendant{}
	return Poll(ctx, pollPids, func() error {
		pids, err := pidsIn(name)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if p, _, ok := readStat(pid); ok && meant(pid) {
				killed[pid] = p
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		maps.DeleteFunc(killed, func(_ int, p Descendant) bool { return !p.Exists() })
		if len(killed) > 0 {
			return fmt.Errorf("processes %v in namespace %s do not end", slices.Collect(maps.Values(killed)), name)
		}
		return nil
	})
}

func pidsIn(name string) ([]int, error) {
	out, err := exec.Command("ip", "netns", "pids", name).Output()
	if err != nil {
		return nil, fmt.Errorf("ip netns pids %s: %w", name, err)
	}
	var pids []int
	for _, field := range strings.Fields(string(out)) {
		pid, err := strconv.Atoi(field)
		if err == nil && !isZombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isZombie says whether nothing of a process is left but its result: one whose first thread has ended goes on with the others.
func isZombie(pid int) bool {
	if threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); err == nil && len(threads) > 1 {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // gone meanwhile
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
