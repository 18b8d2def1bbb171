package node

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// Command is a command that runs inside the node: as one of its processes, on its network, with its mounts.
func Command(ctx context.Context, pid int, argv ...string) *exec.Cmd {
	args := []string{"--target", strconv.Itoa(pid), "--mount", "--net", "--ipc", "--uts", "--pid", "--"}
	return exec.CommandContext(ctx, "nsenter", append(args, argv...)...)
}

// NetNS is the file of the node's network namespace, on the host.
func NetNS(pid int) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }
