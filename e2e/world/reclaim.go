package world

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
)

var namespaceName = regexp.MustCompile(`^sp-([0-9]+)-[a-z]+$`)

// reclaim ends what is left of runs whose process is gone: their processes, namespaces and directories. It touches
// nothing of a run that lives.
func reclaim(base string) error {
	var errs []error
	dirs, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	alive := map[string]bool{}
	for _, d := range dirs {
		if _, err := strconv.Atoi(d.Name()); err != nil {
			continue
		}
		dir := filepath.Join(base, d.Name())
		lock, err := lockFile(filepath.Join(dir, lockName))
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			alive[d.Name()] = true
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		}
		errs = append(errs, removeNamespaces(func(pid string) bool { return pid == d.Name() }), os.RemoveAll(dir), lock.Close())
	}
	// Namespaces whose directory is gone too, for instance because /tmp was emptied.
	errs = append(errs, removeNamespaces(func(pid string) bool {
		return !alive[pid] && !processExists(pid)
	}))
	return errors.Join(errs...)
}

// removeNamespaces removes the namespaces of the runs that match, with the processes in them.
func removeNamespaces(match func(pid string) bool) error {
	if os.Geteuid() != 0 {
		return nil // only root made any
	}
	names := map[string]bool{}
	for _, dir := range []string{netnsDir, etcNetnsDir} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if m := namespaceName.FindStringSubmatch(e.Name()); m != nil && match(m[1]) {
				names[e.Name()] = true
			}
		}
	}
	var errs []error
	for name := range names {
		errs = append(errs, deleteNamespace(name))
	}
	return errors.Join(errs...)
}

func processExists(pid string) bool {
	_, err := os.Stat(filepath.Join("/proc", pid))
	return err == nil
}
