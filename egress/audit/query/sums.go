package query

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// Sums is what is asked of what records add up to. The relation that its statement reads has Columns; began, first and last, which are times;
// and records, lost, bytes_sent and bytes_received, which are to be added up. A row of it is of one record or of many, as is quicker: the same
// records in any case, each once.
type Sums struct {
	Filter  Filter
	Columns []string // of the log, which the statement reads
	// Workload says that the statement names workloads: the relation has workload, too, the pod where there is no account.
	Workload bool
	// Grain, if set, is what times are told apart by: began is no more than that before the first record of its row, and never on the other side of
	// one of its multiples.
	Grain time.Duration
	// Statement makes the statement of the relation, which it has to read once.
	Statement func(relation string) string
}

// Each runs the statement and calls f with each row.
func (s Sums) Each(ctx context.Context, db *sql.DB, f func(*sql.Rows) error) error {
	tx, err := db.BeginTx(ctx, nil) // the mark, and what is on either side of it, are of one moment
	if err != nil {
		return fmt.Errorf("audit sums: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	until, some, err := store.RolledUntil(ctx, tx)
	if err != nil {
		return err
	}
	parts := s.fromRecords()
	if some {
		if rolled, ok := s.fromRollups(until); ok {
			parts = rolled
		}
	}
	relation, args := union(parts)
	rows, err := tx.QueryContext(ctx, s.Statement(relation), args...)
	if err != nil {
		return fmt.Errorf("audit sums: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// part is a SELECT and its parameters.
type part struct {
	text string
	args []any
}

func union(parts []part) (string, []any) {
	var texts []string
	var args []any
	for _, p := range parts {
		texts, args = append(texts, p.text), append(args, p.args...)
	}
	return "(" + strings.Join(texts, " UNION ALL ") + ")", args
}

// ofRecords is a part with a row for each record.
func (s Sums) ofRecords(condition string, args []any) part {
	columns := slices.Clone(s.Columns)
	if s.Workload {
		columns = append(columns, store.NamedByPod+" AS workload")
	}
	columns = append(columns, "time AS began", "time AS first", "time AS last", "1::UBIGINT AS records", "lost", "bytes_sent", "bytes_received", "ingested")
	return part{"SELECT " + strings.Join(columns, ", ") + " FROM " + store.Table + " WHERE " + condition, args}
}

func (s Sums) fromRecords() []part { return []part{s.ofRecords(s.Filter.Condition())} }

// fromRollups reads roll-ups for the whole periods of the time, and records for what is at its ends, for what came in after a moment, and for
// what fits though roll-ups do not know; ok is false where all of it would be that.
func (s Sums) fromRollups(until time.Time) (parts []part, ok bool) {
	f := s.Filter
	for _, c := range s.Columns {
		if !store.Rolled(c) {
			return nil, false
		}
	}
	narrow, args, exact, ok := f.rolled()
	if !ok || s.Grain%store.Period != 0 {
		return nil, false
	}
	from, to := f.Since.UTC().Truncate(store.Period), f.Until.UTC().Truncate(store.Period)
	if from.Before(f.Since) {
		from = from.Add(store.Period)
	}
	if f.Until.IsZero() {
		to = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if !from.Before(to) {
		return nil, false
	}
	columns := slices.Clone(s.Columns)
	if s.Workload {
		columns = append(columns, "workload")
	}
	columns = append(columns, "began", "first", "last", "records", "lost", "bytes_sent", "bytes_received", "ingested")
	condition, values := f.seen(narrow, args)
	parts = append(parts, part{"SELECT " + strings.Join(columns, ", ") + " FROM " + store.RollupsTable + " WHERE " + condition + " AND began >= ? AND began < ?", append(values, from, to)})

	beside := func(since, until time.Time, more string, args ...any) {
		f := f
		f.Since, f.Until = since, until
		condition, values := f.Condition()
		parts = append(parts, s.ofRecords(condition+more, append(values, args...)))
	}
	if f.Since.Before(from) {
		beside(f.Since, from, "")
	}
	if !f.Until.IsZero() && to.Before(f.Until) {
		beside(to, f.Until, "")
	}
	beside(from, to, " AND ingested > ?", until)
	if !exact {
		beside(from, to, " AND ingested <= ? AND NOT ("+narrow+")", append([]any{until}, args...)...)
	}
	return parts, true
}

// rolled is a condition on roll-ups for records that fit; exact says that all others do not. Within is left out.
func (f Filter) rolled() (condition string, args []any, exact, ok bool) {
	if f.Verdict != "" || f.Host != "" || f.From != (Workload{}) || f.Rule != (Rule{}) || f.WouldDeny {
		return "", nil, false, false // Terms can say all of these
	}
	conditions := []string{"true"}
	exact = true
	for _, t := range f.Terms {
		k, known := byName[t.Key]
		switch {
		case !known || t.check() != nil:
			return "", nil, false, false
		case !slices.ContainsFunc(k.columns, func(c string) bool { return !store.Rolled(c) }):
		case k.rolled != nil && !t.Not:
			k, exact = *k.rolled, exact && !slices.ContainsFunc(t.Values, namesOne)
		default:
			return "", nil, false, false
		}
		c, values := t.whereOf(k)
		conditions, args = append(conditions, c), append(args, values...)
	}
	return strings.Join(conditions, " AND "), args, exact, true
}

// namesOne says whether NAMESPACE/NAME has a name.
func namesOne(value string) bool {
	_, name, _ := strings.Cut(value, "/")
	return name != ""
}
