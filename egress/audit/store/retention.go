package store

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// spoolMemory is how long a silent spool's numbers are remembered at least.
const spoolMemory = 30 * 24 * time.Hour

// Prune deletes the records that are older than before, by the time that is believed of them (BelievedTime) as well as by when they came in: a clock that is
// behind does not cost a record its life, and one that is ahead, or a proxy that lies, keeps none for longer than a day more. Those that somebody has yet to
// take stay (Options.Held). It returns how many went.
func (s *Store) Prune(ctx context.Context, before time.Time) (int64, error) {
	return ask(ctx, s, func(ctx context.Context) (int64, error) { return s.prune(ctx, before) })
}

// prune is Prune on the writer's goroutine. The file does not shrink; DuckDB uses the blocks again.
func (s *Store) prune(ctx context.Context, before time.Time) (int64, error) {
	before = before.UTC()
	old, args := s.olderThan(before)
	if mark, some := s.held.mark(); some {
		if err := s.held.count(ctx, s.db, Arrivals+old, args, before); err != nil {
			return 0, s.fail("count old records", err)
		}
		old += " AND (" + ingestedColumn + " <= ? OR " + ingestedColumn + " < ?)"
		args = append(args, mark, before.Add(-heldAtMost))
	}
	var deleted int64
	err := s.gatherer.alone(func() error {
		return transact(ctx, s.db, func(conn *sql.Conn) error {
			stale, err := noteAhead(ctx, conn, old, args, before)
			if err != nil {
				return err
			}
			if deleted, err = deleteRecords(ctx, conn, old, args); err == nil && deleted > 0 {
				err = stale.remake(ctx, conn)
			}
			if err != nil {
				return err
			}
			return execute(ctx, conn, "DROP TABLE "+aheadPeriods)
		})
	})
	if err != nil {
		return 0, s.fail("delete old records", err)
	}
	return deleted, nil
}

// olderThan is the condition of records that are older than a moment, with its parameters. What came in more than believedAhead before it is older, whatever it says of its time.
// When records came in stands first, and alone: rows are in that order, so that DuckDB passes over the others by it.
func (s *Store) olderThan(before time.Time) (where string, args []any) {
	future := s.options.Now().UTC().Add(24 * time.Hour) // nothing can have come in after it
	return " WHERE (" + ingestedColumn + " < ? OR " + ingestedColumn + " > ?) AND (time < ? OR " + ingestedColumn + " < ?)",
		[]any{before, future, before, before.Add(-believedAhead)}
}

// deleteRecords deletes those for which a condition holds, and what only they named.
func deleteRecords(ctx context.Context, conn *sql.Conn, where string, args []any) (deleted int64, err error) {
	tables := []string{RowsTable, WholeTable}
	earlier, err := hasTable(ctx, conn, earlierRows)
	if err != nil {
		return 0, err
	}
	if earlier {
		tables = append(tables, earlierRows)
	}
	for _, table := range tables {
		result, err := conn.ExecContext(ctx, "DELETE FROM "+table+where, args...) //nolint:gosec // G202: tables and conditions are ours, and what is chosen by is in args
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		deleted += n
	}
	if earlier {
		if err := forgetParts(ctx, conn, earlierRows, earlierTable); err != nil {
			return 0, err
		}
	}
	return deleted, forgetParts(ctx, conn, RowsTable, func(table string) string { return table })
}

// maintain does what is due once an hour, and at the start: retention, and a short table of spools.
func (s *Store) maintain() {
	ctx, now := context.Background(), s.options.Now()
	if keep := s.options.Retention; keep > 0 {
		deleted, err := s.prune(ctx, now.Add(-keep))
		if err != nil {
			s.log.Error("audit retention failed", "retention", keep, "err", err)
		} else if deleted > 0 {
			s.log.Info("old audit records deleted", "records", deleted, "retention", keep)
		}
	}
	if err := errors.Join(s.compactSpools(), s.forgetCopies(ctx)); err != nil {
		s.log.Error("audit store: maintenance failed", "err", err)
		return
	}
	if _, err := s.db.ExecContext(ctx, "CHECKPOINT"); err != nil {
		s.log.Debug("audit store: no checkpoint now", "err", err) // readers are in the way; DuckDB does it later
	}
}

// compactSpools makes the table of spools short. Silent ones are forgotten, but where records are kept for ever.
func (s *Store) compactSpools() error {
	var forget time.Time
	if keep := s.options.Retention; keep > 0 {
		forget = s.options.Now().Add(-max(keep, spoolMemory))
	}
	if err := s.seen.compact(s.writer, forget); err != nil {
		return s.fail("make the table spools compact", err)
	}
	return nil
}
