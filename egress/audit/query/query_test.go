package query

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

var noon = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

func rec(seq int, change func(*record.Record)) record.Record {
	r := record.Record{Proxy: "p", Epoch: 1, Seq: uint64(seq), Time: noon.Add(time.Duration(seq) * time.Minute),
		Class: record.HTTP, Verdict: record.Allowed, Host: fmt.Sprintf("h%d.example.com", seq), Port: 443,
		Workload: record.Workload{Namespace: "shop", ServiceAccount: "cart", Name: "cart-1"}}
	if change != nil {
		change(&r)
	}
	return r
}

func filled(t testing.TB, records ...record.Record) *sql.DB {
	t.Helper()
	return filledStore(t, store.Options{}, records...).DB()
}

// filledStore is a store with records, an hour after noon.
func filledStore(t testing.TB, options store.Options, records ...record.Record) *store.Store {
	t.Helper()
	options.Now = func() time.Time { return noon.Add(time.Hour) }
	s, err := store.Open(context.Background(), t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Store(context.Background(), records); err != nil {
		t.Fatal(err)
	}
	return s
}

func sample() []record.Record {
	return []record.Record{
		rec(1, nil),
		rec(2, func(r *record.Record) { r.Verdict, r.Host = record.Denied, "Evil.TEST" }),
		rec(3, func(r *record.Record) { r.Verdict, r.Host = record.Denied, "a.evil.test" }),
		rec(4, func(r *record.Record) { r.Workload = record.Workload{Namespace: "pay", ServiceAccount: "cart"} }),
		rec(5, func(r *record.Record) { r.Host = "100%_\\'; DROP TABLE records; --" }),
		rec(6, func(r *record.Record) { r.Class, r.Verdict, r.Host, r.Count = record.Gap, "", "", 3 }),
	}
}

func TestFilter(t *testing.T) {
	db := filled(t, sample()...)
	tests := []struct {
		name   string
		filter Filter
		want   []uint64
	}{
		{"everything", Filter{}, []uint64{1, 2, 3, 4, 5, 6}},
		{"the newest", Filter{Limit: 2}, []uint64{5, 6}},
		{"since is included, until is not", Filter{Since: noon.Add(2 * time.Minute), Until: noon.Add(4 * time.Minute)}, []uint64{2, 3}},
		{"verdict", Filter{Verdict: record.Denied}, []uint64{2, 3}},
		{"host", Filter{Host: "evil.test"}, []uint64{2}},
		{"host glob", Filter{Host: "*.EVIL.test"}, []uint64{3}},
		{"one character", Filter{Host: "h?.example.com"}, []uint64{1, 4}},
		{"wildcards of SQL are none", Filter{Host: "h_.example.com"}, nil},
		{"no injection", Filter{Host: "' OR '1'='1"}, nil},
		{"special characters", Filter{Host: "100%_\\'; DROP*"}, []uint64{5}},
		{"namespace", Filter{From: Workload{Namespace: "pay"}}, []uint64{4}},
		{"pod", Filter{From: Workload{"shop", "cart-1"}, Limit: 1}, []uint64{6}},
		{"service account", Filter{From: Workload{"pay", "cart"}}, []uint64{4}},
		{"no such workload", Filter{From: Workload{"pay", "cart-1"}}, nil},
		{"all at once", Filter{Since: noon, Verdict: record.Denied, Host: "*evil*", From: Workload{"shop", "cart*"}, Limit: 1},
			[]uint64{3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []uint64
			err := Each(t.Context(), db, tt.filter, func(r record.Record) error {
				if got = append(got, r.Seq); !tt.filter.Match(&r) {
					t.Errorf("Match does not fit record %d", r.Seq)
				}
				return nil
			})
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v, %v", got, tt.want, err)
			}
		})
	}
}

// TestRules: what policies did, by their names.
func TestRules(t *testing.T) {
	object := func(kind, name, rule string) record.Object {
		return record.Object{Kind: kind, Namespace: "shop", Name: name, Rule: rule}
	}
	one, other := object("EgressPolicy", "list", "one"), object("EgressPolicy", "next", "default")
	db := filled(t,
		rec(1, nil),
		rec(2, func(r *record.Record) { r.DecidedBy = object("ServiceEntry", "list", "one") }),
		rec(3, func(r *record.Record) { r.Verdict, r.DecidedBy = record.Denied, one }),
		rec(4, func(r *record.Record) { r.AllowedBy = one }),
		rec(5, func(r *record.Record) { r.AllowedBy, r.WouldDeny = one, other }),
		rec(6, func(r *record.Record) { r.WouldDeny = one }),
		rec(7, func(r *record.Record) {
			r.Verdict, r.DecidedBy = record.Denied, record.Object{Kind: "AuthorizationPolicy", Namespace: "istio-system", Name: "gate", Rule: "rules[0]"}
		}),
	)
	for _, tt := range []struct {
		name   string
		filter Filter
		want   []uint64
	}{
		{"an AuthorizationPolicy", Filter{Rule: Rule{Namespace: "istio-system", Policy: "gate"}, Verdict: record.Denied}, []uint64{7}},
		{"would deny", Filter{WouldDeny: true}, []uint64{5, 6}},
		{"a policy", Filter{Rule: Rule{Namespace: "shop", Policy: "list"}}, []uint64{3, 4, 5, 6}},
		{"a policy that would deny", Filter{Rule: Rule{Namespace: "shop", Policy: "list"}, WouldDeny: true}, []uint64{6}},
		{"policies of a namespace", Filter{Rule: Rule{Namespace: "shop"}}, []uint64{3, 4, 5, 6}},
		{"policies of another one", Filter{Rule: Rule{Namespace: "pay"}}, nil},
		{"a rule", Filter{Rule: Rule{Name: "default"}}, []uint64{5}},
		{"a rule, by glob", Filter{Rule: Rule{Name: "o?e*"}}, []uint64{3, 4, 5, 6}},
		{"another policy's rule", Filter{Rule: Rule{Policy: "next", Name: "one"}}, nil},
		{"a rule that denied", Filter{Rule: Rule{Policy: "list", Name: "one"}, Verdict: record.Denied}, []uint64{3}},
		{"no injection", Filter{Rule: Rule{Policy: "' OR '1'='1", Name: "%"}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, matched []uint64
			if err := Each(t.Context(), db, Filter{}, func(r record.Record) error {
				if tt.filter.Match(&r) {
					matched = append(matched, r.Seq)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			err := Each(t.Context(), db, tt.filter, func(r record.Record) error { got = append(got, r.Seq); return nil })
			if err != nil || !slices.Equal(got, tt.want) || !slices.Equal(matched, tt.want) {
				t.Errorf("%v, and %v match, want %v, %v", got, matched, tt.want, err)
			}
		})
	}
}

// TestTimesComeBack: a time that a table prints is the same one as a bound, wherever the program runs; of two records in the hour that a wall's clock has twice each has its own.
func TestTimesComeBack(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	local := time.Local
	time.Local = berlin
	t.Cleanup(func() { time.Local = local })
	for _, at := range []time.Time{time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 30, 0, 5e6, time.UTC), time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC), noon} {
		printed := schema.Cells(&record.Record{Time: at})[0]
		if got, err := ParseTime(printed, noon); err != nil || !got.Equal(at) {
			t.Errorf("%s is printed as %q, which is %v, %v", at, printed, got, err)
		}
	}
}

func rfc3339(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// TestPast: since when something was seen is before now, also by a moment.
func TestPast(t *testing.T) {
	for text, past := range map[string]bool{"": true, "1s": true, "7d": true, rfc3339(noon.Add(-time.Second)): true, "0s": false, rfc3339(noon): false, rfc3339(noon.Add(time.Second)): false, "2999-01-01": false} {
		if _, err := ParsePast(text, noon); (err == nil) != past {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParsePast("soon", noon); err == nil || strings.Contains(err.Error(), "to come") {
		t.Errorf("soon: %v", err)
	}
}

// TestHalfIsNotWhole: an output that something ended before its end does not look like a whole one.
func TestHalfIsNotWhole(t *testing.T) {
	broke := errors.New("the server went away")
	for _, format := range Formats {
		var out bytes.Buffer
		w, err := NewWriter(format, &out)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(sample()[0]); err != nil {
			t.Fatal(err)
		}
		if err := End(w, broke); !errors.Is(err, broke) {
			t.Errorf("%s: %v", format, err)
		}
		if format == "json" && json.Valid(out.Bytes()) || out.Len() == 0 {
			t.Errorf("%s: %s", format, &out)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Time{
		"": {}, "1h": noon.Add(-time.Hour), "7d": noon.AddDate(0, 0, -7), "1w2d3h4m": noon.Add(-(9*24 + 3) * time.Hour).Add(-4 * time.Minute),
		"2027-04-01T00:00:00Z": time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC), "2027-04-01": time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC),
		"2027-04-01T02:00:00+02:00": time.Date(2027, 4, 1, 0, 0, 0, 0, time.UTC), "2027-04-01T02:00": time.Date(2027, 4, 1, 2, 0, 0, 0, time.UTC), "2027-04-01 02:00": time.Date(2027, 4, 1, 2, 0, 0, 0, time.UTC),
		"2027-04-01 02:00Z": time.Date(2027, 4, 1, 2, 0, 0, 0, time.UTC), "2027-04-01 02:00:01.250Z": time.Date(2027, 4, 1, 2, 0, 1, 250e6, time.UTC),
	} {
		if got, err := ParseTime(text, noon); err != nil || !got.Equal(want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"yesterday", "-1h", "d", "1d1d", "99999999d", "1h2d", "15251w", "30501w", "65535w", "15250w200d", "15250w2562047h"} {
		if got, err := ParseTime(text, noon); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for text, want := range map[string]Workload{"": {}, "a": {"a", ""}, "a/b": {"a", "b"}, "/b": {"", "b"}} {
		if got, err := ParseWorkload(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if _, err := ParseWorkload("a/b/c"); err == nil {
		t.Error("a/b/c is a workload")
	}
	for text, want := range map[string]Rule{"": {}, "a": {Namespace: "a"}, "a/b": {Namespace: "a", Policy: "b"}} {
		if got, err := ParsePolicy(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"/", "a/b/c"} {
		if got, err := ParsePolicy(text); err == nil {
			t.Errorf("%q is the policy %v", text, got)
		}
	}
	if _, err := ParseVerdict("maybe"); err == nil {
		t.Error("maybe is a verdict")
	}
}

// FuzzGlob holds globMatch and DuckDB's LIKE on globLike's pattern together.
func FuzzGlob(f *testing.F) {
	f.Add("*.evil.test", "a.evil.test")
	f.Add("a%_\\?*", "a%_\\xyz")
	f.Add("**a**b", "aab")
	db, err := sql.Open("duckdb", "")
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	f.Fuzz(func(t *testing.T, glob, text string) {
		glob, text = strings.ToValidUTF8(glob, ""), strings.ToValidUTF8(text, "")
		if strings.ContainsRune(glob+text, 0) {
			return // the driver ends texts there; the store holds none
		}
		var like bool
		if err := db.QueryRow(`SELECT ? LIKE ? ESCAPE '\'`, text, globLike(glob)).Scan(&like); err != nil {
			t.Fatal(err)
		}
		if got := globMatch(glob, text); got != like {
			t.Errorf("glob %q, text %q: %v here, %v there", glob, text, got, like)
		}
	})
}

// result is a RowSink that keeps everything.
type result struct {
	names []string
	rows  [][]any
}

func (r *result) Columns(names []string) error { r.names = names; return nil }
func (r *result) Row(cells []any) error        { r.rows = append(r.rows, cells); return nil }

func TestSQL(t *testing.T) {
	db := filled(t, sample()...)
	var got result
	err := SQL(t.Context(), db, `WITH d AS (SELECT * FROM records WHERE verdict = 'denied')
		SELECT count(*), min(time), 18446744073709551615::UBIGINT AS big, [1, 2], {'a': NULL}, 1.50::DECIMAL(4,2),
			'NaN'::DOUBLE, 1::HUGEINT FROM d`, &got)
	want := `[[2,"2027-05-01T12:02:00Z",18446744073709551615,[1,2],{"a":null},1.5,"NaN",1]]`
	if b, _ := json.Marshal(got.rows); err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	if got.names[2] != "big" {
		t.Errorf("columns %v", got.names)
	}
}

func TestSQLCanOnlyReadTheLog(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.csv")
	if err := os.WriteFile(secret, []byte("a\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := filled(t, sample()...)
	for _, statement := range []string{
		"", "SELEC", "SELECT nothing FROM records",
		"DELETE FROM records", "INSERT INTO records SELECT * FROM records", "UPDATE records SET host = ''",
		"DROP TABLE records", "CREATE TABLE x (a INT)", "CREATE TEMP TABLE x (a INT)", "ALTER TABLE records DROP host",
		"SELECT 1; DELETE FROM records", "DELETE FROM records; SELECT 1", "BEGIN", "COMMIT", "CHECKPOINT", "VACUUM",
		"SELECT * FROM read_csv('" + secret + "')", "SELECT * FROM '" + secret + "'", "SELECT * FROM read_text('" + secret + "')",
		"SELECT * FROM read_blob('/etc/hostname')", "SELECT * FROM glob('/*')", "SELECT * FROM parquet_scan('x')",
		"COPY records TO '" + secret + ".out'", "EXPORT DATABASE '" + secret + ".d'", "ATTACH '" + secret + ".db'",
		"INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '100GB'", "SET enable_external_access = true",
		"PRAGMA enable_external_access = true", "RESET lock_configuration", "SET GLOBAL threads = 64", "CALL pragma_version()",
		"PREPARE p AS DELETE FROM records", "SELECT * FROM query('DELETE FROM records')", "EXPLAIN ANALYZE DELETE FROM records",
		"SELECT * FROM force_checkpoint()",
	} {
		if err := SQL(t.Context(), db, statement, &result{}); err == nil {
			t.Errorf("%q ran", statement)
		} else if wrong := (StatementError{}); !errors.As(err, &wrong) {
			t.Errorf("%q: %v is no StatementError", statement, err)
		}
	}
	var n int
	if err := db.QueryRow("SELECT count(*) FROM records").Scan(&n); err != nil || n != 6 {
		t.Errorf("%d records are left, %v", n, err)
	}
	if files, _ := filepath.Glob(secret + ".*"); files != nil {
		t.Errorf("files were written: %v", files)
	}
}

func TestSQLEndsWithItsContext(t *testing.T) {
	db := filled(t, sample()...)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := SQL(ctx, db, "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range + b.range = 7", &result{}); err == nil {
		t.Error("it ended by itself")
	}
	var got result // the connection is usable again, outside the transaction
	if err := SQL(t.Context(), db, "SELECT 1", &got); err != nil || len(got.rows) != 1 {
		t.Errorf("%v, %v", got.rows, err)
	}
}

func write(t *testing.T, format string, records ...record.Record) string {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(format, &b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestFormats(t *testing.T) {
	r := rec(1, func(r *record.Record) {
		r.Workload.Principal, r.Method, r.Status = "spiffe://cluster.local/ns/shop/sa/cart", "GET", 403
		r.DecidedBy, r.Reason = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "strict", Rule: "rules[0]"}, "no, never"
		r.Verdict, r.Path, r.Destination = record.Denied, record.PathGateway, "192.0.2.1:443"
	})
	if got := write(t, "json"); got != "[]\n" {
		t.Errorf("empty array: %q", got)
	}
	var back []map[string]any
	if err := json.Unmarshal([]byte(write(t, "json", r, r)), &back); err != nil || len(back) != 2 ||
		back[0]["workload"].(map[string]any)["principal"] != r.Workload.Principal || back[0]["host"] != r.Host {
		t.Errorf("%v, %v", back, err)
	}
	for _, format := range []string{"ocsf", "jsonl"} {
		if lines := strings.Split(strings.TrimSpace(write(t, format, r, r)), "\n"); len(lines) != 2 || !json.Valid([]byte(lines[1])) {
			t.Errorf("%s: %q", format, lines)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(write(t, "csv", r))).ReadAll()
	if err != nil || len(rows) != 2 || !slices.Equal(rows[0], schema.Names()) || rows[1][3] != "2027-05-01T12:01:00Z" {
		t.Errorf("%v, %v", rows, err)
	}
	table := write(t, "table", r)
	for _, want := range []string{"TIME ", "denied", "gateway", "shop/cart-1", "h1.example.com", "443", "192.0.2.1:443",
		"GET 403", "EgressPolicy shop/strict rules[0]", "no, never"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	lines := strings.Split(table, "\n")
	if strings.Index(lines[0], "HOST") != strings.Index(lines[1], "h1.example.com") {
		t.Errorf("not aligned:\n%s", table)
	}
	if gap := write(t, "table", sample()[5]); !strings.Contains(gap, "3 records lost") {
		t.Error(gap)
	}
	if _, err := NewWriter("xml", nil); err == nil {
		t.Error("xml is a format")
	}
}

func TestHostileTextIsHarmless(t *testing.T) {
	r := rec(1, func(r *record.Record) { r.Host, r.Reason = "=cmd|' /C calc'!A0", "a\x1b[2Jb\u202ec\nd\xff" })
	table := write(t, "table", r)
	if strings.ContainsAny(table, "\x1b\u202e") || strings.Count(table, "\n") != 2 || !strings.Contains(table, `a\x1b[2Jb\u202ec\nd`) {
		t.Errorf("%q", table)
	}
	for _, formula := range []string{"=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠a"} {
		if got := csvCells([]any{formula, "a" + formula, int64(-1)}); got[0] != "'"+formula || got[1] != "a"+formula || got[2] != "-1" {
			t.Errorf("%q", got)
		}
	}
	if rows := write(t, "csv", r); !strings.Contains(rows, "'=cmd|") {
		t.Errorf("%q", rows)
	}
}

func TestRowFormats(t *testing.T) {
	for format, want := range map[string]string{
		"json":  "[\n{\"b\":1,\"a\":\"x\"},\n{\"b\":null,\"a\":[\"y\"]}\n]\n",
		"csv":   "b,a\n1,x\n,\"[\"\"y\"\"]\"\n",
		"table": "b  a\n1  x\n-  [\"y\"]\n",
	} {
		var b bytes.Buffer
		w, err := NewRowWriter(format, &b)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(w.Columns([]string{"b", "a"}), w.Row([]any{int64(1), "x"}), w.Row([]any{nil, []any{"y"}}), w.Close())
		if err != nil || b.String() != want {
			t.Errorf("%s: %q, %v", format, b.String(), err)
		}
	}
	if _, err := NewRowWriter("ocsf", nil); err == nil {
		t.Error("rows have no OCSF")
	}
}
