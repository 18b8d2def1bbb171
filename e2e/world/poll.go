package world

import (
	"context"
	"fmt"
	"time"
)

// Poll calls f every interval until it returns nil, and gives f's last error when the context ends first. For what
// another process does, which has no other way to tell us.
func Poll(ctx context.Context, every time.Duration, f func() error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (waited until %w)", err, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// Within is Poll with a time limit of its own.
func Within(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s had passed", limit))
	defer cancel()
	return Poll(ctx, min(100*time.Millisecond, limit/20), f)
}
