package world

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
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
		if holderExists(d.Name()) && !ours(d.Name()) {
			alive[d.Name()] = true // or about to lock its directory, which must not be taken for a dead one's
			continue
		}
		dir := filepath.Join(base, d.Name())
		lock, err := lockFile(filepath.Join(dir, lockName), 0) // not made anew in one that somebody else removes at this moment
		switch {
		case errors.Is(err, os.ErrNotExist):
			errs = append(errs, os.RemoveAll(dir))
			continue
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
		return !alive[id] && (!holderExists(id) || ours(id)) // a dead one's id may be this process's now
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
	_, err := os.Stat(filepath.Join("/proc", holder(id)))
	return err == nil
}

func ours(id string) bool { return holder(id) == strconv.Itoa(os.Getpid()) }

func holder(id string) string {
	pid, _, _ := strings.Cut(id, ".")
	return pid
}
