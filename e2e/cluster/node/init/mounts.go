package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// mountAll hides from the host what the cluster mounts, and from the cluster what the host runs.
func mountAll() error {
	// First away from the host; then shared again, as kubelets expect of their root.
	for _, propagation := range []uintptr{syscall.MS_PRIVATE, syscall.MS_SHARED} {
		if err := syscall.Mount("", "/", "", syscall.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("mount propagation of /: %w", err)
		}
	}
	if err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	// Sockets, network namespaces and locks; logs' links; addresses given out. These paths are fixed in programs.
	var errs []error
	for _, dir := range []string{"/run", "/var/log"} {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755"); err != nil {
			errs = append(errs, fmt.Errorf("mounting %s: %w", dir, err))
		}
	}
	return errors.Join(append(errs, os.Mkdir("/run/netns", 0o755), os.Mkdir("/run/lock", 0o1777))...)
}
