package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// Start starts a node in dir, whose first process is the program init. It outlives us and our session. There must be
// none: see Running and Remove.
func Start(ctx context.Context, dir, init string, spec Spec) (pid int, err error) {
	if err := errors.Join(os.MkdirAll(spec.Logs, 0o755), spec.write(dir), saveSysctls(dir), makeCgroups()); err != nil {
		return 0, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Close() }() // the node's own copy keeps the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return 0, fmt.Errorf("there is a node in %s already: %w", dir, err)
	}
	wait, gate, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(wait.Close(), gate.Close()) }()

	cmd := exec.CommandContext(context.WithoutCancel(ctx), init, dir)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{lock, wait} // LockFD, GateFD
	out, err := os.OpenFile(filepath.Join(spec.Logs, "init.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting %s in namespaces of its own: %w", init, err)
	}
	pid = cmd.Process.Pid
	go func() { _ = cmd.Wait() }() // when it ends before us, it must not stay a zombie
	if err := os.WriteFile(filepath.Join(dir, pidName), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		return pid, err
	}
	return pid, connect(pid, spec.Address)
}
