package query

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// Sums is what is asked of what records add up to. The relation that its statement reads has Columns; began, first and last, which are times;
// and records, lost, bytes_sent and bytes_received, which are to be added up; ingested is when the last of them came in. A row of it is of one record or of many, as is quicker: the same
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
	// Vain, if set, remembers what was looked for in vain among records that roll-ups have, so that it is not for the next sum.
	Vain *lru.Cache[string, struct{}]
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
		if rolled, beyond, ok := s.fromRollups(until); ok {
			parts = rolled
			if err := s.find(ctx, tx, beyond, &parts); err != nil {
				return err
			}
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

// find adds a part, if there is one, and if it has a row. One that has none, of records that came in up to a moment, has none later either.
func (s Sums) find(ctx context.Context, tx *sql.Tx, beyond *part, parts *[]part) error {
	if beyond == nil {
		return nil
	}
	key := fmt.Sprint(beyond.text, beyond.args)
	if s.Vain != nil && s.Vain.Contains(key) {
		return nil
	}
	var one int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM ("+beyond.text+") LIMIT 1", beyond.args...).Scan(&one)
	switch {
	case err == nil:
		*parts = append(*parts, *beyond)
	case !errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("audit sums: %w", err)
	case s.Vain != nil:
		s.Vain.Add(key, struct{}{})
	}
	return nil
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

// between is a condition on when records were.
func between(since, until time.Time) string {
	out := "true"
	if !since.IsZero() {
		out = "time >= " + Instant(since)
	}
	if !until.IsZero() {
		out += " AND time < " + Instant(until)
	}
	return out
}

// ofRecords is a part of the records that fit for which one of some conditions on time and ingested holds, of which no two do; beside is one more condition on what they are.
func (s Sums) ofRecords(came []string, beside string, args ...any) part {
	columns := slices.Clone(s.Columns)
	read := append(slices.Clone(columns), s.Filter.reads()...)
	if s.Workload {
		columns = append(columns, store.NamedByPod+" AS workload")
		read = append(read, "service_account", "workload")
	}
	slices.Sort(read)
	read = slices.Compact(read)
	columns = append(columns, "began", "first", "last", "records", "lost", "bytes_sent", "bytes_received", "ingested")
	condition, values := s.Filter.seen(s.Filter.fits())
	relation := store.Added(read, s.Grain, came...)
	if len(values) > 0 || beside != "" { // it is about some of them
		relation = store.OneByOne(read, came...)
	}
	return part{"SELECT " + strings.Join(columns, ", ") + " FROM " + relation + " WHERE " + condition + beside, append(values, args...)}
}

func (s Sums) fromRecords() []part {
	return []part{s.ofRecords([]string{between(s.Filter.Since, s.Filter.Until)}, "")}
}

// fromRollups reads roll-ups for the whole periods of the time, and records for what is at its ends and for what came in after a moment. beyond is of
// records that roll-ups have, and that fit though these cannot tell; mostly there is none. ok is false where roll-ups do not help.
func (s Sums) fromRollups(until time.Time) (parts []part, beyond *part, ok bool) {
	f := s.Filter
	for _, c := range s.Columns {
		if !store.Rolled(c) {
			return nil, nil, false
		}
	}
	narrow, args, exact, ok := f.rolled()
	if !ok || s.Grain%store.Period != 0 {
		return nil, nil, false
	}
	from, to := f.Since.UTC().Truncate(store.Period), f.Until.UTC().Truncate(store.Period)
	if from.Before(f.Since) {
		from = from.Add(store.Period)
	}
	if !f.Until.IsZero() && !from.Before(to) {
		return nil, nil, false
	}
	columns := slices.Clone(s.Columns)
	if s.Workload {
		columns = append(columns, "workload")
	}
	columns = append(columns, "began", "first", "last", "records", "lost", "bytes_sent", "bytes_received", "ingested")
	when := "began >= " + Instant(from)
	if !f.Until.IsZero() {
		when += " AND began < " + Instant(to)
	}
	condition, values := f.seen(narrow, args)
	parts = append(parts, part{"SELECT " + strings.Join(columns, ", ") + " FROM " + store.AddedRollups(when, s.Grain) + " WHERE " + condition, values})

	if f.Until.IsZero() {
		to = time.Time{}
	}
	came := []string{between(from, to) + " AND ingested > " + Instant(until)} // a literal, by which DuckDB leaves out what came before
	if f.Since.Before(from) {
		came = append(came, between(f.Since, from))
	}
	if to.Before(f.Until) {
		came = append(came, between(to, f.Until))
	}
	parts = append(parts, s.ofRecords(came, ""))
	if !exact {
		x := s.ofRecords([]string{between(from, to) + " AND ingested <= " + Instant(until)}, " AND NOT ("+narrow+")", args...)
		beyond = &x
	}
	return parts, beyond, true
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
