// Package actions makes records of what people do: a word about an item of review, a login.
//
// In: an action, with who did it and who vouches for that name. Out: a record of class "action" in the store, on disk when Add returns. No proxy
// reports any: what proxies hand in goes by package ingest, which refuses the class.
package actions

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// What is done.
const (
	Login = "login"
	// Words about an item of package review.
	Approved = "approved"
	Rejected = "rejected"
	Snoozed  = "snoozed"
	// Applied is of the objects of an approval, which the reason names.
	Applied = "applied"
)

// proxy is by whom such records are, in the place of a proxy's node id.
const proxy = "sallyport-actions"

// Store keeps records: all of them are on disk when it returns.
type Store interface {
	Store(ctx context.Context, records []record.Record) error
}

// Log makes the records of one server.
type Log struct {
	store Store
	epoch uint64
	seq   atomic.Uint64
}

// New makes a log; now tells its records from those of servers of before.
func New(s Store, now time.Time) *Log { return &Log{store: s, epoch: uint64(now.UnixNano())} }

// storedWithin is how long the store may take.
const storedWithin = 10 * time.Second

// Add keeps an action. It says what was done, by whom, and what about; where and which it is in the log is said here.
func (l *Log) Add(ctx context.Context, r record.Record) error {
	ctx, cancel := context.WithTimeout(ctx, storedWithin)
	defer cancel()
	r.Proxy, r.Epoch, r.Seq, r.Class = proxy, l.epoch, l.seq.Add(1), record.Action
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.Bound()
	if err := l.store.Store(ctx, []record.Record{r}); err != nil {
		return fmt.Errorf("it could not be recorded who did it, so it is not done: %w", err)
	}
	return nil
}
