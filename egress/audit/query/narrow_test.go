package query

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// kept is a RowSink that keeps all.
type kept struct {
	names []string
	rows  []string
}

// Columns implements RowSink.
func (k *kept) Columns(names []string) error {
	k.names = names
	return nil
}

// Row implements RowSink.
func (k *kept) Row(cells []any) error {
	k.rows = append(k.rows, fmt.Sprint(cells...))
	return nil
}

// TestNarrow: what a statement finds does not depend on which parts are joined for it, and nothing of that is left for the next one.
func TestNarrow(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Store(t.Context(), varied(rand.New(rand.NewPCG(1, 2)), 1, 3000)); err != nil {
		t.Fatal(err)
	}
	s.DB().SetMaxOpenConns(1) // all by one connection
	usual := narrowFrom
	defer func() { narrowFrom = usual }()
	for _, statement := range []string{
		"SELECT count(*) FROM records",
		"SELECT host, count(*) AS n FROM records GROUP BY ALL ORDER BY n DESC, host LIMIT 10",
		"SELECT sum(bytes_sent::HUGEINT) FROM records WHERE time > TIMESTAMPTZ '2000-01-01'",
		"SELECT max(time), min(ingested) FROM records",
		"SELECT * FROM records ORDER BY proxy, epoch, seq",
		"SELECT COLUMNS('host|name.*') FROM records ORDER BY ALL",
		"SELECT COLUMNS(c -> c LIKE '%_kind') FROM records ORDER BY ALL",
		"FROM records ORDER BY seq",
		"SELECT records FROM records ORDER BY seq",
		"SELECT r.verdict FROM records r NATURAL JOIN records s ORDER BY ALL",
		"SELECT count(*) FROM records r JOIN records s USING (host)",
		"SELECT (SELECT count(*) FROM records), (SELECT max(host) FROM records)",
		"WITH x AS (SELECT * FROM records) SELECT namespace, count(*) FROM x GROUP BY ALL ORDER BY ALL",
		"WITH records AS (SELECT 1 AS a) SELECT a FROM records",
		"SELECT count(*) FROM records WHERE host = 'none such'",
		"SELECT * FROM records WHERE host = 'none such' AND verdict IS NULL",
		"SELECT count(*) FROM records WHERE false",
		"SELECT seq FROM records WHERE false UNION ALL SELECT length(host) FROM records ORDER BY ALL",
		"SELECT seq FROM records WHERE source IS NULL OR source LIKE '10.%' ORDER BY ALL",
		"SELECT count(*) FROM main.records WHERE verdict = 'denied'",
		"SELECT count(*) FROM record_targets",
		"SELECT (SELECT count(*) FROM record_targets) + count(*) FROM records",
		"SELECT DISTINCT reporter FROM records ORDER BY ALL",
		"SELECT time FROM records ORDER BY time DESC, seq LIMIT 7",
		"SELECT seq, path FROM records ORDER BY time DESC, seq LIMIT 7",
		"SELECT verdict FROM records USING SAMPLE 100%",
		"PIVOT records ON verdict USING count(*) GROUP BY path ORDER BY path",
		"SELECT * FROM query('SELECT ' || 'count(DISTINCT host)' || ' FROM records')",
		"SUMMARIZE SELECT path FROM records",
		"SELECT nonesuch FROM records",
		"SELECT error(host) FROM records WHERE host <> ''",
	} {
		var want, got kept
		narrowFrom = 1 << 60
		plain := SQL(t.Context(), s.DB(), statement, &want)
		narrowFrom = 0
		narrowed := SQL(t.Context(), s.DB(), statement, &got)
		if (plain == nil) != (narrowed == nil) {
			t.Errorf("%s: %v, and %v", statement, plain, narrowed)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(kept{})); diff != "" {
			t.Errorf("%s: %.2000s", statement, diff)
		}
	}
	conn, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for statement, want := range map[string]int{ // count(*) reads the first column of a union
		"SELECT host, count(*) FROM records GROUP BY ALL": 3, "SELECT count(*) FROM records": 3, "SELECT * FROM records": 0, "SELECT 1": 0, "nonsense": 0,
		"SELECT max(host), max(verdict), max(source) FROM records": 1, "SELECT count(*) FROM records WHERE namespace = 'shop' AND time > TIMESTAMPTZ '2000-01-01'": 2,
	} {
		if got := unreadParts(planOf(t.Context(), conn, statement)); len(got) != want {
			t.Errorf("%s: %v are not read, want %d", statement, got, want)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	var views int
	if err := s.DB().QueryRow("SELECT count(*) FROM duckdb_views() WHERE temporary AND view_name = 'records'").Scan(&views); err != nil || views != 0 {
		t.Errorf("%d views are left, %v", views, err)
	}
}
