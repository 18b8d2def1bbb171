package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// How records are gathered into inputs.
const (
	gatherEvery = 250_000   // so many that came in are gathered
	gatherChunk = 1_000_000 // as many at a time, where more wait: in a folder whose inputs are made anew
)

// gatherer gathers new records into inputs, beside the writer: what it has not done yet is done by whoever asks (EachInput). A
// transaction adds the inputs of some records, and moves the mark up to which records are gathered. Records come in at ever later moments
// (Store.moment).
type gatherer struct {
	mu      sync.Mutex    // held by what writes the table
	waiting atomic.Int64  // records, about
	enough  chan struct{} // there are so many that it should work
	done    chan struct{} // closed when it has ended
}

// note says that records came in.
func (g *gatherer) note(n int) {
	if g.waiting.Add(int64(n)) < gatherEvery {
		return
	}
	select {
	case g.enough <- struct{}{}:
	default:
	}
}

// gatherLoop works until the store is closed; ctx does not end before.
func (s *Store) gatherLoop(ctx context.Context) {
	defer close(s.gatherer.done)
	ctx, end := context.WithCancel(ctx)
	defer end()
	go func() {
		<-s.closing
		end()
	}()
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	due := true
	for {
		err := s.gather(ctx)
		if err == nil && due {
			err = s.tidyInputs(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("audit store: records are not gathered into inputs; those who ask for inputs wait longer", "err", err)
		}
		select {
		case <-s.closing:
			return
		case <-s.gatherer.enough:
			due = false
		case <-hourly.C:
			due = true
		}
	}
}

// gather gathers the records that are not yet.
func (s *Store) gather(ctx context.Context) error {
	s.gatherer.mu.Lock()
	defer s.gatherer.mu.Unlock()
	for more := true; more; {
		s.gatherer.waiting.Store(0)
		err := transact(ctx, s.db, func(conn *sql.Conn) (err error) {
			more, err = gatherChunkOf(ctx, conn)
			return err
		})
		if err != nil {
			return s.fail("gather records into inputs", err)
		}
	}
	return nil
}

// gatherChunkOf gathers some records, and says whether more may wait.
func gatherChunkOf(ctx context.Context, conn *sql.Conn) (more bool, err error) {
	_, from, err := inputsAt(ctx, conn)
	if err != nil {
		return false, err
	}
	// The rows' order is that in which they came, so that a chunk's end is found without sorting. If a clock was put back once, it is
	// another chunk, and no less right.
	var to sql.NullTime
	err = conn.QueryRowContext(ctx, fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[1]s > ? LIMIT 1 OFFSET %[3]d", ingestedColumn, Table, gatherChunk), from).Scan(&to)
	if more = err == nil; !more {
		err = conn.QueryRowContext(ctx, fmt.Sprintf("SELECT max(%[1]s) FROM %[2]s WHERE %[1]s > ?", ingestedColumn, Table), from).Scan(&to)
	}
	if err != nil || !to.Valid {
		return false, err
	}
	if err := fillInputs(ctx, conn, gathered(ingestedColumn+" > ? AND "+ingestedColumn+" <= ?"), from, to.Time); err != nil {
		return false, err
	}
	_, err = conn.ExecContext(ctx, "UPDATE "+inputsState+" SET until = ?", to.Time)
	return more, err
}

// fillInputs adds the rows of a SELECT, as many as are told apart.
func fillInputs(ctx context.Context, conn *sql.Conn, rows string, args ...any) error {
	if _, err := conn.ExecContext(ctx, "CREATE TEMP TABLE found AS "+rows, args...); err != nil {
		return err
	}
	var n int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM found").Scan(&n); err != nil {
		return err
	}
	var statements []string
	for _, b := range beyonds {
		if n > b.most {
			statements = append(statements, b.find("found"), "INSERT INTO "+InputsTable+" "+b.merged("found"),
				"DELETE FROM found WHERE rowid IN (SELECT id FROM many)", "DROP TABLE many")
		}
	}
	statements = append(statements, "INSERT INTO "+InputsTable+" SELECT * FROM found", "DROP TABLE found")
	for _, statement := range statements {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// tidyInputs merges the rows of days that got some, and deletes days that are older than records are kept.
func (s *Store) tidyInputs(ctx context.Context) error {
	s.gatherer.mu.Lock()
	defer s.gatherer.mu.Unlock()
	err := transact(ctx, s.db, func(conn *sql.Conn) error {
		if keep := s.options.Retention; keep > 0 {
			now := s.options.Now().UTC()
			before, ahead := now.Add(-keep), now.Add(24*time.Hour) // like records
			_, err := conn.ExecContext(ctx, "DELETE FROM "+InputsTable+" WHERE day < CAST(? AS DATE) AND ("+ingestedColumn+" < ? OR "+ingestedColumn+" > ?)",
				before.Format(time.DateOnly), before, ahead)
			if err != nil {
				return err
			}
		}
		const days = "day IN (SELECT DISTINCT day FROM " + InputsTable + " WHERE " + ingestedColumn + " > (SELECT merged FROM " + inputsState + "))"
		if _, err := conn.ExecContext(ctx, "CREATE TEMP TABLE several AS SELECT * FROM "+InputsTable+" WHERE "+days); err != nil {
			return err
		}
		if _, err := conn.ExecContext(ctx, "DELETE FROM "+InputsTable+" WHERE "+days); err != nil {
			return err
		}
		if err := fillInputs(ctx, conn, mergedFrom("several")); err != nil {
			return err
		}
		for _, statement := range []string{"DROP TABLE several", "UPDATE " + inputsState + " SET merged = until"} {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s.fail("merge inputs", err)
	}
	return nil
}
