package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How records are gathered into inputs and roll-ups.
const (
	gatherEvery = 250_000         // so many that came in are gathered
	gatherAfter = 5 * time.Minute // fewer are, too
	gatherChunk = 1_000_000       // as many at a time, where more wait: in a folder whose inputs are made anew
)

// gatherer gathers new records into inputs and roll-ups, beside the writer: what it has not done yet is done by whoever asks (EachInput,
// query.Filter.Sums). A transaction adds what some records add up to, and moves the mark up to which records are gathered. Records come in at
// ever later moments (Store.moment).
type gatherer struct {
	mu      sync.Mutex    // held by a transaction that writes their tables
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

// alone runs a transaction that writes the tables beside no other one of them.
func (g *gatherer) alone(f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f()
}

// gathering is a table of what records add up to, with a mark of its own.
type gathering struct {
	state string                                                                         // the table that has the mark
	fill  func(ctx context.Context, conn *sql.Conn, condition string, args ...any) error // adds those of some records
}

var gatherings = []gathering{{inputsState, fillInputsOf}, {rollupsState, fillRollups}}

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
	often := time.NewTicker(gatherAfter)
	defer often.Stop()
	due := true
	for {
		err := s.Gather(ctx)
		if err == nil && due {
			err = s.tidy(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("audit store: records are not gathered into inputs and roll-ups; those who ask for them wait longer", "err", err)
		}
		select {
		case <-s.closing:
			return
		case <-s.gatherer.enough:
			due = false
		case <-often.C:
			due = false
		case <-hourly.C:
			due = true
		}
	}
}

// Gather gathers the records that are not yet. The store does so by itself, when there are enough.
func (s *Store) Gather(ctx context.Context) error {
	s.gatherer.waiting.Store(0)
	for _, g := range gatherings {
		said := time.Now()
		for more := true; more; {
			if time.Since(said) > sayEvery {
				said = time.Now()
				s.sayGathered(ctx, g)
			}
			err := s.gatherer.alone(func() error {
				return transact(ctx, s.db, func(conn *sql.Conn) (err error) {
					more, err = g.chunk(ctx, conn)
					return err
				})
			})
			if err != nil {
				return s.fail("gather records", err)
			}
		}
	}
	return nil
}

// sayEvery is how often it is said how far it is with many records, as in a folder whose inputs are made anew.
const sayEvery = time.Minute

// sayGathered says how many records wait for a gathering.
func (s *Store) sayGathered(ctx context.Context, g gathering) {
	var left uint64
	if err := s.db.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM %[1]s WHERE %[2]s > (SELECT until FROM %[3]s)", Arrivals, ingestedColumn, g.state)).Scan(&left); err != nil {
		return // the next chunk says what is wrong
	}
	s.log.Info("audit store: records are added up that came before; meanwhile questions about what was asked for read the records themselves", "left", left)
}

// chunk gathers some records, and says whether more may wait.
func (g gathering) chunk(ctx context.Context, conn *sql.Conn) (more bool, err error) {
	var from time.Time
	if err := conn.QueryRowContext(ctx, "SELECT greatest(until, TIMESTAMPTZ '0001-01-01') FROM "+g.state).Scan(&from); err != nil {
		return false, err
	}
	// The rows' order is that in which they came, so that a chunk's end is found without sorting. If a clock was put back once, it is
	// another chunk, and no less right.
	var to sql.NullTime
	err = conn.QueryRowContext(ctx, fmt.Sprintf("SELECT %[1]s FROM %[2]s WHERE %[1]s > ? LIMIT 1 OFFSET %[3]d", ingestedColumn, Arrivals, gatherChunk), from).Scan(&to)
	if more = err == nil; !more {
		err = conn.QueryRowContext(ctx, fmt.Sprintf("SELECT max(%[1]s) FROM %[2]s WHERE %[1]s > ?", ingestedColumn, Arrivals), from).Scan(&to)
	}
	if err != nil || !to.Valid {
		return false, err
	}
	if err := g.fill(ctx, conn, ingestedColumn+" > ? AND "+ingestedColumn+" <= ?", from, to.Time); err != nil {
		return false, err
	}
	_, err = conn.ExecContext(ctx, "UPDATE "+g.state+" SET until = ?", to.Time) //nolint:gosec // G202: names of tables are ours
	return more, err
}

// tidy makes the tables short again: rows that are one are merged, and inputs of days go whose records are older than they are kept.
func (s *Store) tidy(ctx context.Context) error {
	if err := s.tidyInputs(ctx); err != nil {
		return s.fail("merge inputs", err)
	}
	if err := s.mergeDays(ctx, rollupsByDay); err != nil {
		return s.fail("merge roll-ups", err)
	}
	return nil
}

func (s *Store) tidyInputs(ctx context.Context) error {
	if err := s.alone(ctx, s.forgetInputs); err != nil {
		return err
	}
	return s.mergeDays(ctx, inputsByDay)
}

// byDay is a table whose rows are merged a day at a time, so that what is in memory is a day's; or several days', which have few.
type byDay struct {
	rows, kinds, state string
	day                string                                                         // of a row: an expression
	merge              func(ctx context.Context, conn *sql.Conn, days []string) error // in their order
}

// rowsTogether is how many rows days have whose rows are merged at a time. A proxy may say of each record that it is of another day, from the year 2000 to 9999: a transaction
// for each would take hours, in which nothing is gathered.
const rowsTogether = 100_000

var (
	inputsByDay  = byDay{InputsTable, InputKinds, inputsState, "day", mergeInputs}
	rollupsByDay = byDay{rollupRows, rollupKinds, rollupsState, "(DATE '1970-01-01' + (epoch_us(began) // 86400000000)::INTEGER)", mergeRollups}
)

// mergeDays merges the rows of days that got some. What comes meanwhile is merged the next time.
func (s *Store) mergeDays(ctx context.Context, t byDay) error {
	var until sql.NullTime
	if err := s.db.QueryRowContext(ctx, "SELECT until FROM "+t.state+" WHERE isfinite(until)").Scan(&until); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return nil // nothing was gathered yet
		}
		return err
	}
	due, err := s.daysToMerge(ctx, t)
	if err != nil {
		return err
	}
	for _, days := range due {
		if err := s.alone(ctx, func(ctx context.Context, conn *sql.Conn) error { return t.merge(ctx, conn, days) }); err != nil {
			return err
		}
	}
	return s.alone(ctx, func(ctx context.Context, conn *sql.Conn) error {
		if err := execute(ctx, conn, withoutRows(t.kinds, t.rows)); err != nil {
			return err
		}
		_, err := conn.ExecContext(ctx, "UPDATE "+t.state+" SET merged = ?", until.Time) //nolint:gosec // G202: names of tables are ours
		return err
	})
}

// daysToMerge are the days that got rows, as they are merged together.
func (s *Store) daysToMerge(ctx context.Context, t byDay) (due [][]string, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT CAST(one AS VARCHAR), n FROM (SELECT "+t.day+" AS one, count(*) AS n FROM "+t.rows+" GROUP BY one HAVING max("+ingestedColumn+") > (SELECT merged FROM "+t.state+")) ORDER BY one") //nolint:gosec // G202: names of tables are ours
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for together := 0; rows.Next(); {
		var day string
		var n int
		if err := rows.Scan(&day, &n); err != nil {
			return nil, err
		}
		if together += n; len(due) == 0 || together > rowsTogether {
			due, together = append(due, nil), n
		}
		due[len(due)-1] = append(due[len(due)-1], day)
	}
	return due, rows.Err()
}

// alone runs a transaction of tidying beside no other one that writes the tables.
func (s *Store) alone(ctx context.Context, f func(ctx context.Context, conn *sql.Conn) error) error {
	return s.gatherer.alone(func() error {
		return transact(ctx, s.db, func(conn *sql.Conn) error { return f(ctx, conn) })
	})
}

// withoutRows removes the kinds that no row has any more. The rows' kinds are made distinct first: DuckDB would hold one for each row.
func withoutRows(kinds, rows string) string {
	return "DELETE FROM " + kinds + " WHERE id NOT IN (SELECT DISTINCT kind FROM " + rows + ")"
}

// forgetInputs removes the inputs whose records are older than they are kept.
func (s *Store) forgetInputs(ctx context.Context, conn *sql.Conn) error {
	keep := s.options.Retention
	if keep <= 0 {
		return nil
	}
	now := s.options.Now().UTC()
	before, ahead := now.Add(-keep), now.Add(24*time.Hour) // like records
	day := before.Format(time.DateOnly)
	gone, err := conn.ExecContext(ctx, "DELETE FROM "+InputsTable+" WHERE day < CAST(? AS DATE) AND ("+ingestedColumn+" < ? OR "+ingestedColumn+" > ?)", day, before, ahead)
	if err != nil {
		return err
	}
	if n, err := gone.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for _, statement := range []string{"DELETE FROM " + SightingsTable + " WHERE day < CAST(? AS DATE)",
		addSightings(InputsTable+" WHERE day < CAST(? AS DATE)", "kind", "")} {
		if _, err := conn.ExecContext(ctx, statement, day); err != nil {
			return err
		}
	}
	return nil
}

// mergeInputs merges the inputs of days.
func mergeInputs(ctx context.Context, conn *sql.Conn, days []string) error {
	of := " WHERE day IN (DATE '" + strings.Join(days, "', DATE '") + "')"
	if err := execute(ctx, conn,
		"CREATE TEMP TABLE several AS "+mergedFrom(InputsTable+of, append([]inputColumn{{name: "kind"}}, inputRowColumns...)),
		"DELETE FROM "+InputsTable+of,
		"DELETE FROM "+SightingsTable+of,
	); err != nil {
		return err
	}
	if err := (addedInputs{"several", "kind", ofInputKinds, ""}).store(ctx, conn, "SELECT * FROM several"); err != nil {
		return err
	}
	return execute(ctx, conn, "DROP TABLE several")
}
