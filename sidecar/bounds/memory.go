package bounds

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// Memory is how many bytes this process and its children may take together: the least of what its control groups say
// (cgroups(7), version 1 and 2), or half of what the machine has where they say nothing, since it is not alone there.
// root is the file system's.
func Memory(root fs.FS) (uint64, error) {
	machine, err := total(root)
	if err != nil {
		return 0, err
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("control group: %w", err)
	}
	least := machine
	for _, file := range limitFiles(string(groups)) {
		limit, ok, err := limitIn(root, file)
		if err != nil {
			return 0, err
		}
		if ok {
			least = min(least, limit)
		}
	}
	if least == machine {
		return machine / 2, nil
	}
	return least, nil
}

// limitFiles are where the limits of a process' groups, and of the groups around them, may be. In a container its own
// group is mostly mounted as the top, whatever its path is outside.
func limitFiles(groups string) []string {
	files := []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		top, name := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" {
			if !containsController(fields[1], "memory") {
				continue
			}
			top, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for group := path.Clean("/" + fields[2]); group != "/"; group = path.Dir(group) {
			files = append(files, path.Join(top, group, name))
		}
	}
	return files
}

func containsController(list, name string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if one == name {
			return true
		}
	}
	return false
}

// limitIn reads one limit; "max" and a file that is not there are none.
func limitIn(root fs.FS, file string) (uint64, bool, error) {
	text, err := fs.ReadFile(root, file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("memory limit: %w", err)
	}
	word := string(bytes.TrimSpace(text))
	if word == "max" {
		return 0, false, nil
	}
	limit, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return 0, false, fmt.Errorf("memory limit: /%s says %q, which is no number of bytes", file, word)
	}
	return limit, limit > 0, nil
}

// total is the machine's memory in bytes, by proc_meminfo(5).
func total(root fs.FS) (uint64, error) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("the machine's memory: %w", err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if kib, err := strconv.ParseUint(fields[1], 10, 54); err == nil {
				return kib << 10, nil
			}
		}
	}
	return 0, errors.New("the machine's memory: /proc/meminfo has no MemTotal")
}
