package query

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// highest is the most memory that this process had, in KiB.
func highest(t *testing.T) (kib int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	line, _, _ := strings.Cut(after, "kB")
	if err := json.Unmarshal([]byte(strings.TrimSpace(line)), &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

// TestStatementsAreBounded: whatever a statement makes, where DuckDB's own limit counts it and where not, it takes a bounded part of memory and ends with words.
func TestStatementsAreBounded(t *testing.T) {
	s := filledStore(t, store.Options{MemoryLimit: "64MB"}, sample()...)
	db, before := s.DB(), highest(t)
	doubled := "SELECT host AS a FROM records LIMIT 1"
	for range 32 {
		doubled = "SELECT a || a AS a FROM (" + doubled + ")"
	}
	for _, statement := range []string{
		"SELECT length(repeat('x', 3000000000))",
		"SELECT length(repeat(host, 100000000)) FROM records",
		"SELECT length(a) FROM (" + doubled + ")",
		"SELECT length(lpad(host, 2000000000, 'ab')) FROM records",
		"SELECT length(printf('%1500000000d', port)) FROM records",
		"SELECT TRY(length(replace(repeat('x', 100000), 'x', repeat(host, 10000)))) FROM records",
		"SELECT len(range(1, 300000000))",
		"SELECT histogram(i) IS NULL FROM range(5000000) t(i)",
		"SELECT repeat('x', 32000000)::INT",
		"SELECT repeat(host, 1000000) FROM records",
		"SELECT range(0, 4000000)",
		"SELECT [[1]], list_transform(range(0, 4000000), lambda x: 1::TINYINT)",
		"SELECT {'a': [repeat('1', 5000000)::BIT]}",
		"SELECT repeat('ab', 3000000)::BLOB",
		"SELECT repeat('x', 5000000); -- one",
	} {
		began := time.Now()
		err := SQL(t.Context(), db, statement, &result{})
		if wrong := (StatementError{}); !errors.As(err, &wrong) {
			t.Errorf("%.80s: %v", statement, err)
			continue
		}
		t.Logf("%.80s: %v, %.160v", statement, time.Since(began).Round(time.Millisecond), err)
		if !strings.Contains(err.Error(), "more memory") && !strings.Contains(err.Error(), "more than 3 MiB") && !strings.Contains(err.Error(), "Out of Memory") {
			t.Errorf("%.80s: %.300v", statement, err)
		}
		if strings.Contains(err.Error(), "SET ") {
			t.Errorf("%.80s: advice that nobody can follow: %v", statement, err)
		}
	}
	if took := highest(t) - before; took > 600<<10 {
		t.Errorf("they took %d KiB", took)
	}
	var got result
	if err := SQL(t.Context(), db, "SELECT count(*) FROM records", &got); err != nil || len(got.rows) != 1 {
		t.Errorf("afterwards: %v, %v", got.rows, err)
	}
}

// TestMeasuredAnswersAreTheSame: what is asked around a statement changes nothing of its answer: names, types, order, and what stands behind it.
func TestMeasuredAnswersAreTheSame(t *testing.T) {
	db := filled(t, sample()...)
	for _, c := range []struct{ statement, names, rows string }{
		{"SELECT host, host, port AS \"a \"\"b\" FROM records ORDER BY host DESC LIMIT 2;", `["host","host","a \"b"]`, ""},
		{"SELECT host FROM records ORDER BY host -- the end", `["host"]`, ""},
		{"FROM records SELECT upper(host) AS h ORDER BY 1 /* the end */ ;", `["h"]`, ""},
		{`SELECT '{"a": [1, {"b": null}]}'::JSON AS j, NULL AS n, ''::VARCHAR AS e`, `["j","n","e"]`, `[[{"a":[1,{"b":null}]},null,""]]`},
		{"SELECT '101'::BIT AS b, '\\xAA'::BLOB AS c, [1, NULL] AS l, {'k': 'v'} AS s, MAP {'m': 1} AS m, 'x'::ENUM('x') AS x", `["b","c","l","s","m","x"]`, ""},
		{"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n::VARCHAR FROM r ORDER BY n DESC", `["CAST(n AS VARCHAR)"]`, `[["3"],["2"],["1"]]`},
		{"DESCRIBE records", `["column_name","column_type","null","key","default","extra"]`, ""},
		{"VALUES ('a', 1), ('b', 2)", `["col0","col1"]`, `[["a",1],["b",2]]`},
		{"SUMMARIZE SELECT host FROM records", "", ""},
		{"SELECT list(host ORDER BY host) FROM records GROUP BY verdict ORDER BY verdict", "", ""},
	} {
		var got result
		if err := SQL(t.Context(), db, c.statement, &got); err != nil {
			t.Errorf("%s: %v", c.statement, err)
			continue
		}
		names, _ := json.Marshal(got.names)
		rows, _ := json.Marshal(got.rows)
		t.Logf("%s: %s %.200s", c.statement, names, rows)
		if c.names != "" && string(names) != c.names {
			t.Errorf("%s: columns %s", c.statement, names)
		}
		if c.rows != "" && string(rows) != c.rows {
			t.Errorf("%s: %s", c.statement, rows)
		}
	}
}
