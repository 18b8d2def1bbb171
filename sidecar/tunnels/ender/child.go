package ender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// Child ends connections of a process that this one has started and that is of the same user. That takes no right: this process takes a copy of the descriptor
// (pidfd_getfd(2)), and connects it to nowhere (connect(2), AF_UNSPEC), by which the kernel resets that one connection, whoever else holds it. Where it may take none, as by the seccomp
// profile that containerd gives, it has a thread of that process do the same (ptrace(2)), which that profile lets it.
type Child struct {
	PID func() int // its number; 0 while it does not run
	// Untraced says why the process may not be traced, whatever the kernel lets; nil is that it may.
	Untraced func() error

	sockets descriptors
	tracing sync.Mutex                       // one at a time
	copies  func(child, fd int) (int, error) // takes copies; nil is pidfd_getfd
}

func (c *Child) copy(child, fd int) (int, error) {
	if c.copies != nil {
		return c.copies(child, fd)
	}
	return unix.PidfdGetfd(child, fd, 0)
}

// End resets a connection, by which the process knows that it was reset, and hands that on. Of one that has ended before the error is sockdiag.ErrGone.
func (c *Child) End(_ context.Context, of sockdiag.Connection, _ ...sockdiag.Connection) error {
	inode, err := sockdiag.Inode(of)
	if err != nil {
		return err
	}
	if inode == 0 {
		return sockdiag.ErrGone // it has closed it, and the kernel sends what is left
	}
	pid := c.PID()
	child, folder, err := open(pid)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(child) }()
	name := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	fd, err := c.sockets.find(folder, name)
	if err != nil {
		return err
	}
	held, err := c.copy(child, fd)
	switch {
	case errors.Is(err, unix.EBADF), errors.Is(err, unix.ESRCH):
		return sockdiag.ErrGone
	case mayNot(err) && c.mayTrace() == nil:
		c.tracing.Lock()
		defer c.tracing.Unlock()
		return resetThere(pid, fd, name, func() error {
			if found, err := sockdiag.Inode(of); err != nil || found != inode {
				return errors.Join(sockdiag.ErrGone, err)
			}
			return nil
		})
	case mayNot(err):
		return errors.Join(cannotCopy(err), c.mayTrace())
	case err != nil:
		return cannotCopy(err)
	}
	defer func() { _ = unix.Close(held) }()
	return reset(held, of)
}

// Holds says whether the process has a connection, and not another one of the same network.
func (c *Child) Holds(of sockdiag.Connection) (bool, error) {
	inode, err := sockdiag.Inode(of)
	pid := c.PID()
	if errors.Is(err, sockdiag.ErrGone) || err == nil && (inode == 0 || pid == 0) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = c.sockets.find(filepath.Join("/proc", strconv.Itoa(pid), "fd"), "socket:["+strconv.FormatUint(uint64(inode), 10)+"]")
	if errors.Is(err, sockdiag.ErrGone) {
		return false, nil
	}
	return err == nil, err
}

// reset connects a descriptor to nowhere, if it is that connection's.
func reset(held int, of sockdiag.Connection) error {
	// its number may be another one's by now
	if cookie, err := unix.GetsockoptUint64(held, unix.SOL_SOCKET, unix.SO_COOKIE); err != nil || cookie != of.Cookie {
		return sockdiag.ErrGone
	}
	nowhere := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(held), uintptr(unsafe.Pointer(&nowhere)), unsafe.Sizeof(nowhere)); errno != 0 { //nolint:gosec // package unix connects to addresses only
		return fmt.Errorf("the kernel does not end the connection of %s: %w", of.Remote, errno)
	}
	return nil
}

// Can says why none can be ended.
func (c *Child) Can(context.Context) error {
	child, folder, err := open(c.PID())
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(child) }()
	list, err := os.Open(folder)
	if err != nil {
		return cannotCopy(err)
	}
	defer func() { _ = list.Close() }()
	names, err := list.Readdirnames(1)
	if err != nil {
		return cannotCopy(err)
	}
	if err := c.tryCopy(child, names[0]); !mayNot(err) {
		return err
	} else if tracing := c.mayTrace(); tracing != nil {
		return errors.Join(err, tracing)
	}
	return nil
}

// mayTrace says why the process may not be traced.
func (c *Child) mayTrace() error {
	if c.Untraced != nil {
		if err := c.Untraced(); err != nil {
			return err
		}
	}
	return MayTrace()
}

// mayNot says whether an error is that this process has no right to copy.
func mayNot(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

// open is the process, for as long as it is that one, and the folder of its descriptors.
func open(pid int) (child int, folder string, err error) {
	if pid == 0 {
		return 0, "", errors.New("the process whose connections are to be ended does not run")
	}
	if child, err = unix.PidfdOpen(pid, 0); err != nil {
		return 0, "", cannotCopy(err)
	}
	return child, filepath.Join("/proc", strconv.Itoa(pid), "fd"), nil
}

// MayEnd says why this process can end connections of nobody that it starts, and, where it can, whether it would trace it for that.
func MayEnd() (traces bool, err error) {
	copying := mayCopy()
	if copying == nil {
		return false, nil
	}
	if tracing := MayTrace(); tracing != nil {
		return false, errors.Join(copying, tracing)
	}
	return true, nil
}

// mayCopy says why this process may not copy descriptors even of itself, so of nobody.
func mayCopy() error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return cannotCopy(err)
	}
	defer func() { _ = unix.Close(self) }()
	return (&Child{}).tryCopy(self, strconv.Itoa(self))
}

func (c *Child) tryCopy(of int, name string) error {
	fd, err := strconv.Atoi(name)
	if err != nil {
		return err
	}
	held, err := c.copy(of, fd)
	switch {
	case errors.Is(err, unix.EBADF): // it is closed meanwhile, but one may look
		return nil
	case err != nil:
		return cannotCopy(err)
	}
	return unix.Close(held)
}

func cannotCopy(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("this process may not take a copy of Envoy's descriptors (pidfd_getfd: a seccomp profile, as containerd's default one, or kernel.yama.ptrace_scope forbids it): %w", err)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("this kernel, or a seccomp profile, knows no pidfd_getfd (Linux 5.6): %w", err)
	}
	return fmt.Errorf("a copy of Envoy's descriptors: %w", err)
}
