package query

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// TestCounted: a statement that is answered by numbers of parts has the answer that it has otherwise, by the same names and types; and what is not sure to be one is left alone.
func TestCounted(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Store(t.Context(), varied(rand.New(rand.NewPCG(3, 4)), 1, 3000)); err != nil {
		t.Fatal(err)
	}
	s.DB().SetMaxOpenConns(1)
	usual := narrowFrom
	defer func() { narrowFrom = usual }()
	for statement, want := range map[string]bool{
		"SELECT namespace, service_account, count(*) AS n FROM records GROUP BY ALL ORDER BY n DESC, ALL LIMIT 10":                           false, // a star in ORDER BY
		"SELECT namespace, service_account, count(*) AS n FROM records GROUP BY ALL ORDER BY n DESC, namespace, service_account LIMIT 10":    true,
		"select namespace, service_account as who, COUNT(*) from records group by 1, 2 order by count(*) desc, namespace, who limit 3;":      true,
		"SELECT count(*), verdict, path FROM main.records GROUP BY verdict, path ORDER BY 2, 3":                                              true,
		"SELECT host, port, count() AS n FROM records GROUP BY host, port ORDER BY n, host, port OFFSET 2":                                   true,
		"SELECT host, count(*) AS port FROM records GROUP BY host ORDER BY port DESC, host":                                                  false, // one column
		"SELECT host, count(*) AS n FROM records WHERE port >= 0 AND host LIKE '%' GROUP BY host ORDER BY n, host":                           true,
		"SELECT host, count(*) AS n FROM records WHERE port IN (443, 80) OR NOT (protocol IS NULL) GROUP BY host ORDER BY n, host":           true,
		"SELECT host AS \"~records\", port, count(*) AS first FROM records GROUP BY ALL ORDER BY first, \"~records\", port":                  true,
		"SELECT count(*) FROM records WHERE host = 'nobody.test' AND port = 443":                                                             false,
		"SELECT count(*) FROM records WHERE host = 'nobody.test' AND port = 443 GROUP BY ALL":                                                true, // 0, not nothing
		"SELECT count(*), count(*) AS again FROM records WHERE port > 0 AND host <> ''":                                                      false,
		"SELECT verdict, path FROM records GROUP BY ALL ORDER BY verdict, path":                                                              false,
		"SELECT namespace, verdict, count(*) AS n FROM records GROUP BY ALL ORDER BY ALL":                                                    false, // of two parts
		"SELECT host, port, count(*) AS n FROM records WHERE time > TIMESTAMPTZ '2000-01-01' GROUP BY ALL ORDER BY host, port":               false, // what differs from record to record
		"SELECT host, port, count(*) AS n FROM records WHERE random() < 2 AND port > 0 GROUP BY ALL ORDER BY host, port":                     false,
		"SELECT host, port, count(DISTINCT method) AS n FROM records GROUP BY ALL ORDER BY host, port":                                       false,
		"SELECT host, port, count(*) FILTER (verdict = 'denied') AS n FROM records GROUP BY ALL ORDER BY host, port":                         false,
		"SELECT host, port, count(*) OVER () AS n FROM records ORDER BY host, port, n":                                                       false,
		"SELECT host, port, count(*) + 1 AS n FROM records GROUP BY ALL ORDER BY host, port":                                                 false,
		"SELECT upper(host), port, count(*) AS n FROM records GROUP BY ALL ORDER BY 1, 2":                                                    false,
		"SELECT host, port, count(*) AS n FROM records GROUP BY ALL HAVING count(*) > 3 ORDER BY host, port":                                 false,
		"SELECT DISTINCT host, port, count(*) AS n FROM records GROUP BY ALL ORDER BY host, port":                                            false,
		"SELECT host, port, count(*) AS n FROM records r GROUP BY ALL ORDER BY host, port":                                                   false,
		"SELECT host, port, count(*) AS n FROM records GROUP BY ROLLUP (host, port) ORDER BY host, port, n":                                  false,
		"WITH records AS (SELECT 'a' AS host, 1 AS port) SELECT host, port, count(*) AS n FROM records GROUP BY ALL":                         false,
		"SELECT host, port, count(*) AS n FROM records USING SAMPLE 100%":                                                                    false,
		"SELECT host, port, count(*) AS n FROM records, records r GROUP BY ALL":                                                              false,
		"SELECT host, port, count(*) AS n FROM (SELECT * FROM records) GROUP BY ALL ORDER BY host, port":                                     false,
		"SELECT count(*) FROM records WHERE host = (SELECT max(host) FROM records) AND port > 0":                                             false,
		"SELECT host, nonesuch, count(*) AS n FROM records GROUP BY ALL":                                                                     false,
		"SELECT host, port, count(*) AS n FROM records GROUP BY ALL ORDER BY host, port; SELECT 1":                                           false,
		"SELECT host, port, count(*) AS n FROM records GROUP BY host, port ORDER BY n, host, port LIMIT (SELECT 2)":                          false,
		"SELECT host, port, count(*) AS n FROM records GROUP BY ALL UNION ALL SELECT host, port, count(*) FROM records GROUP BY ALL LIMIT 0": false,
	} {
		var plain, better kept
		narrowFrom = 1 << 60
		wrong := SQL(t.Context(), s.DB(), statement, &plain)
		narrowFrom = 0
		if err := SQL(t.Context(), s.DB(), statement, &better); (err == nil) != (wrong == nil) {
			t.Errorf("%s: %v, and %v", statement, wrong, err)
		}
		if diff := cmp.Diff(plain, better, cmp.AllowUnexported(kept{})); diff != "" {
			t.Errorf("%s: %.2000s", statement, diff)
		}
		conn, err := s.DB().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, some := counted(t.Context(), conn, statement)
		if some != want {
			t.Errorf("%s: by numbers: %v, want %v", statement, some, want)
		}
		if some {
			before, e1 := onlySelect(conn, statement)
			after, e2 := onlySelect(conn, text)
			if diff := cmp.Diff(before, after, cmp.AllowUnexported(answered{})); diff != "" || e1 != nil || e2 != nil || len(plain.rows) == 0 {
				t.Errorf("%s: %s %v %v", statement, diff, e1, e2)
			}
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
