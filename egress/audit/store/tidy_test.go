package store

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// TestKindsAreHeldOnce: which kinds no row has any more is asked with each kind held once. A log of a month has some ten million rows of a few thousand kinds, and DuckDB would
// hold the kind of each.
func TestKindsAreHeldOnce(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for kinds, rows := range map[string]string{InputKinds: InputsTable, rollupKinds: rollupRows} {
		var key, plan string
		if err := s.DB().QueryRowContext(t.Context(), "EXPLAIN "+withoutRows(kinds, rows)).Scan(&key, &plan); err != nil {
			t.Fatal(err)
		}
		join, distinct := strings.Index(plan, "JOIN"), strings.Index(plan, "GROUP_BY")
		if join < 0 || distinct < join {
			t.Errorf("%s: rows are joined, and not what is distinct of them:\n%s", kinds, plan)
		}
	}
}

// TestDaysAreMergedAlone: rows that are one are merged, of each day.
func TestDaysAreMergedAlone(t *testing.T) {
	const days = 5
	s := open(t, t.TempDir(), Options{})
	rows := `INSERT INTO ` + InputsTable + ` (kind, day, url_path, records, lost, first, last, replicas, bytes_sent, bytes_received, ` + ingestedColumn + `)
		SELECT 1, DATE '2026-01-01' + day::INTEGER, '/', 3, 0, TIMESTAMPTZ '2026-01-01 00:00:00Z', TIMESTAMPTZ '2026-01-02 00:00:00Z', 1, 10, 20, came
		FROM range(5) AS days(day), (VALUES (TIMESTAMPTZ '2026-01-20 00:00:00Z'), (TIMESTAMPTZ '2026-01-21 00:00:00Z')) AS times(came)`
	if err := transact(t.Context(), s.db, func(conn *sql.Conn) error { // at once: the store tidies up itself when it begins
		return execute(t.Context(), conn, "INSERT INTO "+InputKinds+" (id, namespace, host) VALUES (1, 'shop', 'a.test'), (2, 'shop', 'gone.test')", rows,
			"UPDATE "+inputsState+" SET until = TIMESTAMPTZ '2026-02-01 00:00:00Z'")
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.tidyInputs(t.Context()); err != nil {
		t.Fatal(err)
	}
	var several, records, kinds int
	var merged time.Time
	if err := s.DB().QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM "+InputsTable+"), (SELECT sum(records)::INTEGER FROM "+InputsTable+"), (SELECT count(*) FROM "+InputKinds+"), merged FROM "+inputsState).Scan(&several, &records, &kinds, &merged); err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC); several != days || records != 6*days || kinds != 1 || !merged.Equal(want) {
		t.Errorf("%d rows of %d records, %d kinds, merged up to %v; want %d, %d, 1, %v", several, records, kinds, merged, days, 6*days, want)
	}
}

// TestDaysOfFewRowsAreMergedTogether: records that each say another day, which may be any of eight thousand years', do not take a transaction each.
func TestDaysOfFewRowsAreMergedTogether(t *testing.T) {
	const days = 2000
	s := open(t, t.TempDir(), Options{})
	rows := `INSERT INTO ` + rollupRows + ` (began, kind, records, lost, bytes_sent, bytes_received, first, last, ` + ingestedColumn + `)
		SELECT TIMESTAMPTZ '2001-01-01 00:00:00Z' + INTERVAL (day) DAY, 1, 3, 0, 10, 20, TIMESTAMPTZ '2001-01-01 00:00:00Z', TIMESTAMPTZ '2001-01-02 00:00:00Z', came
		FROM range(2000) AS days(day), (VALUES (TIMESTAMPTZ '2026-01-20 00:00:00Z'), (TIMESTAMPTZ '2026-01-21 00:00:00Z')) AS times(came)`
	if err := transact(t.Context(), s.db, func(conn *sql.Conn) error {
		return execute(t.Context(), conn, "INSERT INTO "+rollupKinds+" (id, namespace, host) VALUES (1, 'shop', 'a.test')", rows,
			"UPDATE "+rollupsState+" SET until = TIMESTAMPTZ '2026-02-01 00:00:00Z'")
	}); err != nil {
		t.Fatal(err)
	}
	transactions, counted := 0, rollupsByDay
	counted.merge = func(ctx context.Context, conn *sql.Conn, days []string) error {
		transactions++
		return mergeRollups(ctx, conn, days)
	}
	if err := s.mergeDays(t.Context(), counted); err != nil {
		t.Fatal(err)
	}
	var n, records int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*), sum(records)::INTEGER FROM "+rollupRows).Scan(&n, &records); err != nil {
		t.Fatal(err)
	}
	if transactions != 1 || n != days || records != 6*days {
		t.Errorf("%d transactions, %d rows of %d records; want 1, %d, %d", transactions, n, records, days, 6*days)
	}
}
