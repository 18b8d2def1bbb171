// Command init is the first process of a test cluster's node: it mounts what belongs to the node alone, waits for
// the network, and keeps the services running until it is killed. See package node, which starts it.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"

	"github.com/sallyport/sallyport/e2e/cluster/node"
)

func main() {
	slog.Error("the node ends", "error", run())
	os.Exit(3)
}

// run returns when the node cannot be set up. Otherwise it ends by being killed.
func run() error {
	if len(os.Args) != 2 || os.Getpid() != 1 {
		return errors.New("this is the first process of a node: `make cluster` starts it")
	}
	syscall.CloseOnExec(node.LockFD) // a service must not hold the lock when we are gone
	syscall.CloseOnExec(node.GateFD)
	spec, err := node.ReadSpec(os.Args[1])
	if err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("host name %s: %w", spec.Hostname, err)
	}
	if err := mountAll(); err != nil {
		return err
	}
	gate := os.NewFile(node.GateFD, "gate")
	if _, err := io.Copy(io.Discard, gate); err != nil {
		return err
	}
	if err := errors.Join(gate.Close(), bringUp(spec.Address, spec.Virtual)); err != nil {
		return err
	}
	children := newChildren()
	for _, service := range spec.Services {
		go keep(service, spec.Logs, children)
	}
	return children.reap()
}
