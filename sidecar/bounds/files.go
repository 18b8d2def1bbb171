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
// own to upstream, beside so many sessions.
func Connections(files uint64, sessions uint32) uint32 {
	return uint32(min(max(files, 2*Rest+uint64(sessions))-Rest-uint64(sessions), 1<<31) / 2)
}

const (
	// mostSessions is how many sessions of UDP a gateway has at a time where nothing is short.
	mostSessions = 65_536
	// sessionBytes is what one takes: 5 KB of Envoy's heap, and the kernel's for its socket.
	sessionBytes = 8 << 10
)

// Sessions is how many sessions of UDP a gateway may have at a time with so many files and so much memory, in bytes: a quarter of either at
// most. Envoy has no bound of its own, and crashes when it may open no more files.
func Sessions(files, memory uint64) uint32 {
	return uint32(min(mostSessions, files/4, memory/4/sessionBytes))
}
