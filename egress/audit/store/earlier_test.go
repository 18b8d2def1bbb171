package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// decidedEarlier gives a folder of the fifth version a record with what the sixth keeps in another form.
const decidedEarlier = `INSERT INTO record_outcomes BY NAME SELECT 2 AS id, now() AS since, 'http' AS class, 'denied' AS verdict, 'blackhole' AS path, 'GET' AS method, 403 AS status,
	'EgressPolicy' AS decided_by_kind, 'shop' AS decided_by_namespace, 'allowed' AS decided_by_name, 'default' AS decided_by_rule, '77aa' AS decided_by_revision, 'no rule' AS reason, 'UAEX' AS flags;
	INSERT INTO record_senders VALUES (2, now(), '', 'shop', 'cart', 'cart-1', 'app=cart', '', '10.0.0.9', '');
	INSERT INTO record_rows VALUES (now(), 1, 2, 1, 2, 4711, 9223372036854775809, TIMESTAMPTZ '2027-01-02 05:00:00+00', '/x', 1, 2, 1234567891, 0)`

// TestEarlierParts: records of before, whose parts had other columns, are found by each way in which records are asked for, beside new ones.
func TestEarlierParts(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, oldFolder(t, fifth, "SELECT 1", decidedEarlier), Options{Now: hand.Now})
	want := rec(1<<63 + 1)
	want.Proxy, want.Epoch, want.Time = "sidecar~10.0.0.1~a.b~b", 7, time.Date(2027, 1, 2, 5, 0, 0, 0, time.UTC)
	want.Class, want.Verdict, want.Path, want.Method, want.Status, want.Reason, want.Flags = record.HTTP, record.Denied, "blackhole", "GET", 403, "no rule", []string{"UAEX"}
	want.DecidedBy = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "allowed", Rule: "default", Revision: "77aa"}
	want.Workload = record.Workload{Namespace: "shop", ServiceAccount: "cart", Name: "cart-1", Labels: "app=cart"}
	want.Source, want.Host, want.URLPath, want.BytesSent, want.BytesReceived, want.Duration = "10.0.0.9:4711", "h1.test", "/x", 1, 2, 1234567891
	again := want // by this version
	again.Seq = 6000
	put(t, s, again)
	again.Duration = 1234567000
	got := all(t, s.DB())
	if diff := cmp.Diff([]record.Record{again, want}, got[len(got)-2:]); diff != "" || len(got) != 5002 {
		t.Fatalf("%d records: %s", len(got), diff)
	}
	for question, want := range map[string]string{
		"SELECT count(*) || ' ' || min(duration_ns) FROM " + Relation("decided_by_name", "duration_ns") + " WHERE decided_by_name = 'allowed'":                   "2 1234567000",
		"SELECT string_agg(seq || ' ' || duration_ns, ', ' ORDER BY seq) FROM " + Few([]string{"seq", "duration_ns", "decided_by_rule"}, "seq >= 6000"):          "6000 1234567000, 9223372036854775809 1234567891",
		"SELECT string_agg(source, ', ') FROM " + Few([]string{"source", "duration_ns"}, "duration_ns >= 1234567891 AND source = '10.0.0.9:4711'"):               "10.0.0.9:4711",
		"SELECT sum(records)::INTEGER || ' ' || sum(bytes_sent)::INTEGER FROM " + Added([]string{"decided_by_kind"}, 0, "true") + " WHERE decided_by_kind <> ''": "2 2",
		"SELECT count(*) || ' ' || max(seq) FROM " + OneByOne([]string{"seq", "host"}, "true") + " WHERE host = 'h1.test'":                                       "3 9223372036854775809",
		"SELECT count(*) || ' ' || count(decided_by_name) || ' ' || count(seq) FROM (" + Without("record_targets") + ")":                                         "5002 5001 5002",
		"SELECT count(*) || ' ' || min(proxy) FROM " + Reporters:                                                                                                 "1 sidecar~10.0.0.1~a.b~b",
		"SELECT count(*) || ' ' || count(ingested) FROM " + Arrivals:                                                                                             "5002 5002",
	} {
		var got string
		if err := s.DB().QueryRow(question).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, want %q, %v", question, got, want, err)
		}
	}
	gatherNow(t, s)
	wantRolled(t, s, 5002)
}

// TestEarlierPartsGo: their tables go with the last of them.
func TestEarlierPartsGo(t *testing.T) {
	hand := clock.At(start2027)
	dir := oldFolder(t, fifth)
	s := open(t, dir, Options{Now: hand.Now})
	put(t, s, recs(5001, 5002)...)
	tables := func() (n int) {
		t.Helper()
		if err := s.DB().QueryRow("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'earlier_%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	reopen := func(left, want int) {
		t.Helper()
		wantRows(t, s, left)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, Options{Now: hand.Now})
		wantRows(t, s, left)
		if got := tables(); got != want {
			t.Errorf("with %d records %d tables, want %d", left, got, want)
		}
	}
	hand.Advance(48 * time.Hour)
	for _, tt := range []struct{ before, left, tables int }{{0, 5002, 5}, {4990, 12, 5}, {5000, 2, 0}} {
		if _, err := s.Prune(t.Context(), start2027.Add(time.Duration(tt.before)*time.Second+500*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		reopen(tt.left, tt.tables)
	}
	put(t, s, recs(5003, 5005)...)
	wantRows(t, s, 5)
	if got := fmt.Sprint(all(t, s.DB())[0].Seq); got != "5001" {
		t.Error(got)
	}
}
