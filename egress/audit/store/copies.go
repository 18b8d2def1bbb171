package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Pair is the name in Options.Held of the other store that gets what came in here.
const Pair = "pair"

// Stores that are kept alike have two tables more. copiesTable has the moments at which copies came in, those of one transaction at one: what
// another store has already is not sent back to it. identityTable has one row, by which this database is told from another one in its place.
const (
	copiesTable   = "copies"
	identityTable = "identity"
)

// Copy is Store for records that come from the other store of a pair.
func (s *Store) Copy(ctx context.Context, records []record.Record) error {
	return s.hand(ctx, request{records: records, copies: true})
}

// Identity tells this database from every other one, also from one that takes its place when its disk is lost.
func (s *Store) Identity(ctx context.Context) (string, error) {
	return ask(ctx, s, func(ctx context.Context) (id string, err error) {
		if _, err := s.db.ExecContext(ctx, "INSERT INTO "+identityTable+" SELECT ? WHERE NOT EXISTS (FROM "+identityTable+")", rand.Text()); err != nil {
			return "", s.fail("write who it is", err)
		}
		if err := s.db.QueryRowContext(ctx, "SELECT id FROM "+identityTable).Scan(&id); err != nil {
			return "", s.fail("read who it is", err)
		}
		return id, nil
	})
}

func prepareCopies(ctx context.Context, db *sql.DB) error {
	if err := execute(ctx, db,
		"CREATE TABLE IF NOT EXISTS "+copiesTable+" ("+ingestedColumn+" TIMESTAMPTZ)",
		"CREATE TABLE IF NOT EXISTS "+identityTable+" (id VARCHAR)",
	); err != nil {
		return fmt.Errorf("audit store: %w", err)
	}
	return nil
}

// forgetCopies drops the moments that nobody asks about any more: what came in up to the pair's mark is settled.
func (s *Store) forgetCopies(ctx context.Context) error {
	s.held.mu.Lock()
	mark, some := s.held.marks[Pair]
	s.held.mu.Unlock()
	if !some { // this store has no other one: if it gets one, that gets all
		mark = s.lastIn
	}
	if _, err := s.db.ExecContext(ctx, "DELETE FROM "+copiesTable+" WHERE "+ingestedColumn+" <= ?", mark); err != nil {
		return s.fail("forget copies", err)
	}
	return nil
}

// Came chooses records by when they came in: after From, and not after To.
type Came struct {
	From, To  time.Time
	Originals bool // without those that came by Copy
}

// where is its condition, which has a place for From and one for To.
func (c Came) where() string {
	where := ingestedColumn + " > ? AND " + ingestedColumn + " <= ?"
	if c.Originals {
		where += " AND " + ingestedColumn + " NOT IN (SELECT " + ingestedColumn + " FROM " + copiesTable + ")"
	}
	return where
}

// Each calls f with records in the order in which they came in.
func Each(ctx context.Context, db *sql.DB, came Came, f func(record.Record) error) error {
	rows, err := db.QueryContext(ctx, "SELECT "+Columns()+" FROM "+Table+" WHERE "+came.where()+" ORDER BY "+ingestedColumn+", proxy, epoch, seq", came.From.UTC(), came.To.UTC()) //nolint:gosec // G202: names of columns and tables are ours, and moments have places
	if err != nil {
		return fmt.Errorf("audit store: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := ScanRecord(rows)
		if err != nil {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return rows.Err()
}
