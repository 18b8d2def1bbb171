package kubetrust

import (
	"context"
	"log/slog"
	"time"
)

const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)

// Keep calls distribute at once, whenever wake says that something changed (a namespace, the bundle), and every
// interval for what others changed, until ctx ends. After an error it tries again after a pause that doubles up to a
// minute. wake should hold one value, so that what happens while distribute runs is seen by the next call.
func Keep(ctx context.Context, interval time.Duration, wake <-chan struct{}, log *slog.Logger, distribute func(context.Context) error) {
	pause := firstRetry
	for {
		wait := interval
		if err := distribute(ctx); ctx.Err() != nil {
			return
		} else if err != nil {
			log.ErrorContext(ctx, "the trust bundle is not everywhere", "error", err, "retry", pause.String())
			wait, pause = pause, min(2*pause, maxRetry)
		} else {
			pause = firstRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}
