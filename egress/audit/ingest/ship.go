package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"github.com/sallyport/sallyport/egress/audit/ingest/ingestpb"
	"github.com/sallyport/sallyport/egress/audit/spool"
)

// Source is what Ship empties: a *spool.Spool.
type Source interface {
	Next(ctx context.Context, limit int) (spool.Batch, error)
	Ack(seq uint64) error
}

// The pace of shipping.
const (
	linger     = 200 * time.Millisecond // between two batches that are not full: at most five small commits a second
	ackTimeout = time.Minute            // a server that is silent for longer is given up
	retryMin   = 500 * time.Millisecond
	retryMax   = 30 * time.Second
)

// Ship sends the source's records in their order, one batch on its way at a time, and acknowledges them to the source
// when the server did. After an error it connects again (0.5 s to 30 s between tries) and goes on with the oldest
// unacknowledged record. It returns when ctx ends (ctx's error) or the spool is closed (nil).
func Ship(ctx context.Context, conn grpc.ClientConnInterface, source Source, logger *slog.Logger) error {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	for failures := 0; ; {
		shipped, err := shipUntilError(ctx, conn, source)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, spool.ErrClosed):
			return nil
		case shipped:
			failures = 0
		}
		failures++
		wait := retryWait(failures)
		level := slog.LevelDebug // the first failure is news, the following ones are not
		if failures == 1 {
			level = slog.LevelWarn
		}
		logger.Log(ctx, level, "audit records wait in the spool: shipping failed", "retry", wait, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// retryWait doubles from retryMin to retryMax, ±20 % so that a fleet does not come back all at once.
func retryWait(failures int) time.Duration {
	wait := retryMax
	if failures < 7 {
		wait = min(retryMin<<(failures-1), retryMax)
	}
	return time.Duration(float64(wait) * (0.8 + 0.4*rand.Float64()))
}

// shipUntilError uses one stream as long as it lasts; shipped says whether anything was acknowledged on it.
func shipUntilError(ctx context.Context, conn grpc.ClientConnInterface, source Source) (shipped bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := ingestpb.NewIngestClient(conn)
	var stream batches
	for {
		batch, err := source.Next(ctx, MaxBatch)
		if err != nil {
			return shipped, err
		}
		if stream == nil { // only now: an idle agent holds no stream
			if stream, err = client.Ship(ctx); err != nil {
				return shipped, fmt.Errorf("audit ingest: %w", err)
			}
		}
		if err := shipBatch(cancel, stream, source, batch); err != nil {
			return shipped, err
		}
		shipped = true
		if batch.Count < MaxBatch/2 && len(batch.Body) < batchBytes/2 {
			select {
			case <-time.After(linger):
			case <-ctx.Done():
				return shipped, ctx.Err()
			}
		}
	}
}

// shipBatch sends one batch and forgets what was acknowledged of it.
func shipBatch(cancel context.CancelFunc, stream batches, source Source, batch spool.Batch) error {
	timer := time.AfterFunc(ackTimeout, cancel)
	defer timer.Stop()
	acked, err := exchange(stream, pack(batch.Body))
	if err != nil {
		return err
	}
	if acked != batch.Last {
		return fmt.Errorf("audit ingest: the server acknowledged %d, the batch ends with %d", acked, batch.Last)
	}
	return source.Ack(acked)
}
