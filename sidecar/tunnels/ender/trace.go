package ender

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// resetThere has the process itself connect a descriptor of its own to nowhere, by a thread of it that stands still meanwhile. still says that the connection is
// there yet, under the name that the descriptor has to have.
func resetThere(pid, fd int, name string, still func() error) error {
	return throughThread(pid, func(t *thread) error {
		// Nobody else there knows the copy's number, so it is nobody's to close.
		held, err := t.call(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		switch {
		case errors.Is(err, unix.EBADF):
			return sockdiag.ErrGone
		case err != nil:
			return fmt.Errorf("a copy of Envoy's descriptor, by Envoy: %w", err)
		}
		defer func() { _, _ = t.call(unix.SYS_CLOSE, held, 0, 0) }()
		if leads, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", strconv.Itoa(int(held)))); err != nil || leads != name {
			return errors.Join(sockdiag.ErrGone, err)
		}
		if err := still(); err != nil {
			return err
		}
		nowhere, err := t.scratch(int(unsafe.Sizeof(unix.RawSockaddr{}))) // AF_UNSPEC is 0
		if err == nil {
			_, err = t.call(unix.SYS_CONNECT, held, nowhere, unsafe.Sizeof(unix.RawSockaddr{}))
		}
		if err != nil {
			return fmt.Errorf("a connection that Envoy has to leave: %w", err)
		}
		return nil
	})
}

// MayTrace says why this process may not trace what it has started, so far as that can be known without doing it.
func MayTrace() error {
	if !traces {
		return errors.New("on this processor nobody is traced")
	}
	// Nobody has this number, so the answer is that; a seccomp profile answers before.
	if err := ptrace(unix.PTRACE_SEIZE, noProcess, 0, 0); !errors.Is(err, unix.ESRCH) {
		return cannotTrace(err)
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if n, bad := strconv.Atoi(strings.TrimSpace(string(scope))); err == nil && (bad != nil || n > 1) {
		return fmt.Errorf("kernel.yama.ptrace_scope is %q", strings.TrimSpace(string(scope)))
	}
	return nil
}

// noProcess is above the highest number that a process can have (PID_MAX_LIMIT).
const noProcess = 1<<22 + 1

func cannotTrace(err error) error {
	return fmt.Errorf("this process may not trace Envoy (ptrace: a seccomp profile, another security module, kernel.yama.ptrace_scope, or who traces it already): %w", err)
}
