package node

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Cgroup is the control group that the kubelet makes the pods' groups in.
var Cgroup = "/" + Name

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies are where control groups can be made: one directory with version 2, one for each controller with
// version 1.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	procs, err := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	var dirs []string
	for _, p := range procs {
		dirs = append(dirs, filepath.Dir(p))
	}
	return dirs, err
}

func makeCgroups() error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		group := filepath.Join(dir, Cgroup)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		// Groups of cpuset (version 1) start empty and take no process.
		for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
			if err := inherit(filepath.Join(dir, name), filepath.Join(group, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func inherit(parent, child string) error {
	have, err := os.ReadFile(child)
	if errors.Is(err, os.ErrNotExist) || (err == nil && len(bytes.TrimSpace(have)) > 0) {
		return nil
	}
	if err != nil {
		return err
	}
	value, err := os.ReadFile(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the root group of version 2 has none, and needs none
	}
	if err != nil {
		return err
	}
	return os.WriteFile(child, value, 0)
}

// removeCgroups removes the groups from the leaves up. It fails while a process ends in one of them.
func removeCgroups() error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	var groups []string
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(dir, Cgroup), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err == nil && entry.IsDir() {
				groups = append(groups, path)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(groups, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	var errs []error
	for _, group := range groups {
		if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
