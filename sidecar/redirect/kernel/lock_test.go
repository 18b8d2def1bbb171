package kernel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLockWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // others on this machine may have it for a while
	defer cancel()
	release, err := Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	soon, stop := context.WithTimeoutCause(ctx, 2*lockPoll, errors.New("waited long enough"))
	defer stop()
	if _, err := Lock(soon); err == nil || !strings.Contains(err.Error(), "another run holds the lock") || !strings.Contains(err.Error(), "waited long enough") {
		t.Errorf("got %v", err)
	}
	second := make(chan error, 1)
	go func() {
		release, err := Lock(ctx)
		if err == nil {
			release()
		}
		second <- err
	}()
	release()
	if err := <-second; err != nil {
		t.Error(err)
	}
}
