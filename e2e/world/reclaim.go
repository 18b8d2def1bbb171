package world

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// A run's id is its process's, with a number behind it where that process holds several.
var (
	runID         = regexp.MustCompile(`^([0-9]+)(\.[0-9]+)?$`)
	namespaceName = regexp.MustCompile(`^sp-([0-9]+(?:\.[0-9]+)?)-[a-z]+$`)
)

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
		if !runID.MatchString(d.Name()) {
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
		errs = append(errs, removeNamespaces(func(id string) bool { return id == d.Name() }), os.RemoveAll(dir), lock.Close())
	}
	// Namespaces whose directory is gone too, for instance because /tmp was emptied.
	errs = append(errs, removeNamespaces(func(id string) bool {
		return !alive[id] && !holderExists(id)
	}))
	return errors.Join(errs...)
}

// removeNamespaces removes the namespaces of the runs that match, with the processes in them.
func removeNamespaces(match func(id string) bool) error {
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

func holderExists(id string) bool {
	pid, _, _ := strings.Cut(id, ".")
	_, err := os.Stat(filepath.Join("/proc", pid))
	return err == nil
}
