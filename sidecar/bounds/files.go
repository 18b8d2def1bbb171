package bounds

import (
	"fmt"
	"syscall"
)

// Files raises the number of files that this process may have open to the most that the machine allows, and gives it.
// Children inherit it: Go gives them the lower number that a process began with, unless the process sets one itself.
func Files() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("open files: %d: %w", limit.Max, err)
	}
	return limit.Max, nil
}

// Rest is how many files a proxy keeps for other things than connections: listeners, its agent's socket, what it resolves.
const Rest = 256

// Connections is how many connections from downstream a proxy may take with so many files, if each may want one of its
// own to upstream.
func Connections(files uint64) uint32 {
	return uint32(min(max(files, 2*Rest)-Rest, 1<<31) / 2)
}
