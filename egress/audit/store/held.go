package store

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"sync"
	"time"
)

// heldAtMost is for how long records are kept beyond their age for those who have not taken them yet.
const heldAtMost = 7 * 24 * time.Hour

// held knows up to which moment of coming in records were taken, by each who takes them.
type held struct {
	mu     *sync.Mutex
	marks  map[string]time.Time
	missed map[string]uint64
}

func newHeld(names []string) held {
	h := held{mu: &sync.Mutex{}, marks: map[string]time.Time{}, missed: map[string]uint64{}}
	for _, name := range names {
		h.marks[name] = time.Time{}
	}
	return h
}

// Release says that one of Options.Held has taken all records that came in up to a moment.
func (s *Store) Release(name string, until time.Time) {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	if mark, known := s.held.marks[name]; known && until.After(mark) {
		s.held.marks[name] = until.UTC()
	}
}

// Missed is how many records were deleted before one of Options.Held had taken them, since the store was opened.
func (s *Store) Missed(name string) uint64 {
	s.held.mu.Lock()
	defer s.held.mu.Unlock()
	return s.held.missed[name]
}

// mark is the moment up to which all have taken what came in; some says whether there is anybody.
func (h *held) mark() (mark time.Time, some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.marks {
		if !some || m.Before(mark) {
			mark, some = m, true
		}
	}
	return mark, some
}

// count counts the records that are deleted though somebody has not taken them: old chooses those of their age.
func (h *held) count(ctx context.Context, db *sql.DB, old string, args []any, before time.Time) error {
	h.mu.Lock()
	marks := maps.Clone(h.marks)
	h.mu.Unlock()
	for name, mark := range marks {
		var n uint64
		err := db.QueryRowContext(ctx, "SELECT count(*) FROM "+old+" AND "+ingestedColumn+" > ? AND "+ingestedColumn+" < ?",
			append(args[:len(args):len(args)], mark, before.Add(-heldAtMost).UTC())...).Scan(&n)
		if err != nil {
			return err
		}
		h.mu.Lock()
		h.missed[name] += n
		h.mu.Unlock()
	}
	return nil
}

// Seal returns a moment later than when all came in that is stored, and not later than what will come in. No moment of it, or of
// later ones, is before after: what was taken before the store was opened stays before what is new, whatever the clock says.
func (s *Store) Seal(ctx context.Context, after time.Time) (time.Time, error) {
	return ask(ctx, s, func(context.Context) (time.Time, error) {
		if after.After(s.lastIn) {
			s.lastIn = after
		}
		s.lastIn = s.moment()
		return s.lastIn, nil
	})
}

// Window bounds the records that came in after from, and not after until, to about n of them: those up to the moment that it returns, and
// how many they are. Records of one moment are never told apart.
func Window(ctx context.Context, db *sql.DB, from, until time.Time, n int) (to time.Time, rows int64, err error) {
	const came = " FROM " + Arrivals + " WHERE " + ingestedColumn + " > ? AND " + ingestedColumn + " <= ?"
	from, until = from.UTC(), until.UTC()
	var nth sql.NullTime
	// The rows' order is that in which they came in; whatever it is, the moment of one of them is a bound.
	err = db.QueryRowContext(ctx, "SELECT "+ingestedColumn+came+" LIMIT 1 OFFSET ?", from, until, n).Scan(&nth)
	switch {
	case err == nil:
		to = nth.Time.UTC()
	case errors.Is(err, sql.ErrNoRows):
		to = until
	default:
		return to, 0, err
	}
	err = db.QueryRowContext(ctx, "SELECT count(*)"+came, from, to).Scan(&rows)
	return to, rows, err
}
