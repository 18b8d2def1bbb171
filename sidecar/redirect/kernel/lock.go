package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// lockAddress is in the abstract namespace: one for each network namespace, no file, and gone with its process however
// that ends.
const lockAddress = "@sallyport-redirect"

// lockPoll is the time between two tries.
const lockPoll = 50 * time.Millisecond

// Lock keeps other runs of this program away from the rules of the network namespace, since looking and writing are two
// steps (the xtables lock covers only each). It waits until ctx ends. Call release when done.
func Lock(ctx context.Context) (release func(), err error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		var lc net.ListenConfig
		l, err := lc.Listen(ctx, "unix", lockAddress)
		if err == nil {
			return func() { _ = l.Close() }, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("take the lock of this network namespace: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another run holds the lock of this network namespace: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
