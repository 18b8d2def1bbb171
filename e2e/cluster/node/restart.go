package node

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Restart ends the node in dir as a machine that loses its power does, and starts it again. What namespaces hold is gone then: processes, networks and their rules, mounts, and what is
// below /run and /var/log; what its programs have on the disk is as they left it.
func Restart(ctx context.Context, dir, init string) (pid int, err error) {
	spec, err := ReadSpec(dir)
	if err != nil {
		return 0, err
	}
	pid, running, err := Running(dir)
	if err != nil {
		return 0, err
	}
	if running {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return 0, fmt.Errorf("ending the node (process %d): %w", pid, err)
		}
	}
	for _, undo := range []func() error{func() error { return ended(dir) }, removeLink, removeCgroups} {
		if err := wait(ctx, undo); err != nil {
			return 0, err
		}
	}
	return Start(ctx, dir, init, spec)
}
