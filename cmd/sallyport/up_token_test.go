package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/sidecar/secrets"
)

// TestTokenIsRenewedByTheCalendar: a machine that slept has a token that holds some seconds after it woke, whatever its timers say.
func TestTokenIsRenewedByTheCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		calendar := clock.At(time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC))
		var written atomic.Int32
		var full atomic.Bool
		u := &embedded{log: slog.New(slog.DiscardHandler)}
		go u.renewToken(ctx, calendar.Now, func() error {
			written.Add(1)
			if full.Load() {
				return errors.New("no space left on device")
			}
			return nil
		})
		synctest.Wait()
		for _, step := range []struct {
			what    string
			passes  time.Duration // by the calendar, in the time of a look
			full    bool
			written int32
		}{
			{"soon", tokenTTL/2 - time.Second, false, 0},
			{"half of its life is over", time.Second, false, 1},
			{"soon after that", time.Hour, false, 1},
			{"the machine slept for as long as a token lives", tokenTTL, false, 2},
			{"the clock was put back", -2 * tokenTTL, false, 3},
			{"half of that one's life is over, and the disk is full", tokenTTL / 2, true, 4},
			{"soon after that", tokenAgain - time.Second, true, 4},
			{"a minute later", time.Second, false, 5},
			{"which was enough", tokenAgain, false, 5},
		} {
			full.Store(step.full)
			calendar.Advance(step.passes)
			time.Sleep(secrets.LookInterval)
			synctest.Wait()
			if n := written.Load(); n != step.written {
				t.Fatalf("%s: written %d times, want %d", step.what, n, step.written)
			}
		}
	})
}
