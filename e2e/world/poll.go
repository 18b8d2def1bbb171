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

// Within calls f until it returns nil, at once, soon, and then every tenth of a second, for as long as limit. Who waits for what must happen has a
// minute or more for it, however little it takes: a test that is content waits for none of it, and a machine may have much else to do.
func Within(ctx context.Context, limit time.Duration, f func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s had passed", limit))
	defer cancel()
	for pause := min(5*time.Millisecond, limit/20); ; pause = min(pause*3/2, 100*time.Millisecond, limit/20) {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (waited until %w)", err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}
