package ca

import (
	"context"
	"time"
)

// Watch reloads the CA every interval until ctx ends, so that a rotated root or a renewed intermediate (a mounted
// secret, or one of the API) is taken over without a restart. What cannot be read, or does not belong together, is
// logged and changes nothing.
func (c *CA) Watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := c.ReloadContext(ctx); err != nil && ctx.Err() == nil {
				c.options.Log.Error("going on with the CA as it was", "error", err)
			}
		}
	}
}
