package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// tell records what somebody does, in the log that was read: by its server, or in the database itself where none runs. A lake takes none.
func (l *auditOrigin) tell(ctx context.Context, r record.Record) error {
	if l.lake.where != "" {
		return errLakeTakesNone
	}
	source, err := l.open(ctx)
	if err != nil {
		return err
	}
	err = query.Tell(ctx, untunnelled(source), r)
	if closing := source.Close(); !errors.Is(err, query.ErrNobodyToTell) {
		return errors.Join(err, closing)
	}
	if r, err = query.Commanded(r); err != nil {
		return err
	}
	data, err := auditData(l.data)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, filepath.Join(data, query.StoreName), store.Options{})
	if err != nil {
		return fmt.Errorf("it cannot be recorded who decides, so nothing is decided: %w", err)
	}
	return errors.Join(actions.New(s, time.Now()).Add(ctx, r), s.Close())
}
