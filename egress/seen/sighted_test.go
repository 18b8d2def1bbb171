package seen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/seen"
)

// opened is a store of which all records came in at noon of the second day.
func opened(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{Now: func() time.Time { return noon.AddDate(0, 0, 1) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// keep stores records.
func keep(t *testing.T, s *store.Store, epoch uint64, records ...record.Record) {
	t.Helper()
	for i := range records {
		records[i].Proxy, records[i].Epoch, records[i].Seq = "p", epoch, uint64(i+1)
	}
	if err := s.Store(context.Background(), records); err != nil {
		t.Fatal(err)
	}
}

// anyRecords are of some workloads, hosts and days.
func anyRecords(rng *rand.Rand, n int) (out []record.Record) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for range n {
		out = append(out, rec(time.Duration(rng.Int64N(int64(3*24*time.Hour)))-48*time.Hour, pick("cart-1", "cart-2", "till-1"), pick("a.test", "b.test", "it's.test"), func(r *record.Record) {
			r.Time = r.Time.Truncate(time.Microsecond)
			r.Workload.Namespace, r.Workload.Labels = pick("shop", "bank", ""), pick("", "app=cart")
			r.URLPath, r.Method, r.Destination = pick("/", "/a/1", "/b"), pick("GET", "POST"), pick("", "203.0.113.9:80")
			switch rng.IntN(6) {
			case 0:
				r.Verdict, r.Path = record.Denied, record.PathBlackhole
			case 1:
				r.Class, r.Protocol, r.Method, r.URLPath = record.Network, "tls", "", ""
			case 2:
				r.Class, r.Protocol, r.Method, r.URLPath, r.Port, r.Verdict = record.DNS, "dns", "", "", 0, record.Denied
			case 3:
				r.Direction, r.Claim = pick(record.Inbound, record.Outbound), pick("", "spiffe://cluster.local/ns/x/sa/y")
			}
		}))
	}
	return out
}

// told is what Sighted and Read both tell of flows.
func told(log *seen.Log) (out []string) {
	for _, f := range log.Flows {
		var methods []string
		for method := range f.Requests {
			methods = append(methods, method)
		}
		slices.Sort(methods)
		out = append(out, fmt.Sprint(f.Namespace, f.Account, f.Labels, f.Host, f.Port, f.Protocol, f.Verdict, f.Way, f.First, f.Last, f.Days, f.Records, f.BytesSent, f.BytesReceived, methods))
	}
	return out
}

// TestSightedAgreesWithRead: what is read of what the log adds up is what its records say, whether they are added up yet or not.
func TestSightedAgreesWithRead(t *testing.T) {
	for seed := range uint64(2) {
		s, rng := opened(t), rand.New(rand.NewPCG(seed, 9))
		for step := range uint64(3) {
			keep(t, s, step+1, anyRecords(rng, 150)...)
			if step < 2 {
				if err := s.Gather(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, q := range []seen.Question{{}, {Namespace: "shop"}, {Since: noon.Truncate(24 * time.Hour), Until: noon.AddDate(0, 0, 1).Truncate(24 * time.Hour)}, {Most: 7}} {
			want, e1 := seen.Read(t.Context(), stored{s.DB()}, q)
			got, e2 := seen.Sighted(t.Context(), stored{s.DB()}, q)
			if e1 != nil || e2 != nil {
				t.Fatal(e1, e2)
			}
			if diff := cmp.Diff(told(want), told(got)); diff != "" || len(got.Flows) < 5 || !reflect.DeepEqual(got.Cut, want.Cut) {
				t.Fatalf("seed %d, %+v: %d flows, cut %v, want %v: %.3000s", seed, q, len(got.Flows), got.Cut, want.Cut, diff)
			}
			for i, f := range got.Flows {
				if f.Pods() < 1 || f.Pods() > want.Flows[i].Pods() {
					t.Errorf("%d pods, of %d", f.Pods(), want.Flows[i].Pods())
				}
				for method, paths := range f.Requests {
					if of := want.Flows[i].Requests[method].Examples(); len(paths.Examples()) == 0 || slices.ContainsFunc(paths.Examples(), func(path string) bool { return !slices.Contains(of, path) }) {
						t.Errorf("%q, of %q", paths.Examples(), of)
					}
				}
			}
		}
	}
}

// TestSightedDoesNotGrowWithTheLog: what is read of a log does not grow with its records once these are added up, and of these themselves nothing is read.
func TestSightedDoesNotGrowWithTheLog(t *testing.T) {
	var read [2][2]uint64
	for i, times := range []int{1, 4} {
		s := opened(t)
		for n := range times {
			keep(t, s, uint64(n+1), anyRecords(rand.New(rand.NewPCG(1, 1)), 500)...)
		}
		if err := s.Gather(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().Exec("DELETE FROM inputs"); err != nil { // which are more than are asked for, too
			t.Fatal(err)
		}
		for k, reading := range []func(context.Context, seen.Source, seen.Question) (*seen.Log, error){seen.Read, seen.Sighted} {
			counts := &scanned{stored: stored{s.DB()}, t: t}
			if log, err := reading(t.Context(), counts, seen.Question{}); err != nil || len(log.Flows) < 20 {
				t.Fatal(log, err)
			}
			read[k][i] = counts.rows
		}
	}
	if whole := read[0]; whole[1] < 2*whole[0] {
		t.Errorf("of records %d rows are read, and %d of four times as many: nothing is counted", whole[0], whole[1])
	}
	if sighted := read[1]; sighted[1] > sighted[0]+sighted[0]/10 || sighted[0] > read[0][0] {
		t.Errorf("%d rows are read, and %d of four times as many records; of the records themselves %d", sighted[0], sighted[1], read[0][0])
	}
}

// scanned counts the rows that statements read of tables.
type scanned struct {
	stored
	t    *testing.T
	rows uint64
}

func (s *scanned) SQL(ctx context.Context, statement string, sink query.RowSink) error {
	rows, err := s.db.QueryContext(ctx, "EXPLAIN (ANALYZE, FORMAT json) "+statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kind, text string
		if err := rows.Scan(&kind, &text); err != nil {
			return err
		}
		s.rows += scannedRows(s.t, text)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return s.stored.SQL(ctx, statement, sink)
}

// TestSightedWhileRecordsAreAddedUp: what the log adds up between two questions is counted once.
func TestSightedWhileRecordsAreAddedUp(t *testing.T) {
	s := opened(t)
	keep(t, s, 1, rec(0, "cart-1", "a.test", nil), rec(0, "cart-1", "b.test", nil))
	if err := s.Gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := &addsUp{stored{s.DB()}, func() {
		keep(t, s, 2, rec(time.Hour, "cart-1", "a.test", nil), rec(time.Hour, "cart-1", "c.test", nil))
		if err := s.Gather(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	log, err := seen.Sighted(t.Context(), late, seen.Question{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range log.Flows {
		got = append(got, fmt.Sprint(f.Host, " ", f.Records))
	}
	if want := []string{"a.test 2", "b.test 1", "c.test 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// addsUp does something once, before flows are read.
type addsUp struct {
	stored
	once func()
}

func (s *addsUp) SQL(ctx context.Context, statement string, sink query.RowSink) error {
	if s.once != nil && strings.Contains(statement, "row_number()") {
		s.once()
		s.once = nil
	}
	return s.stored.SQL(ctx, statement, sink)
}

// TestSightedOfRecordsAlone: a log that adds nothing up, as a lake, is read by its records.
func TestSightedOfRecordsAlone(t *testing.T) {
	s := opened(t)
	keep(t, s, 1, rec(0, "cart-1", "a.test", nil), rec(0, "cart-2", "a.test", nil))
	if _, err := s.DB().Exec("DROP TABLE " + store.SightingsTable); err != nil {
		t.Fatal(err)
	}
	log, err := seen.Sighted(t.Context(), stored{s.DB()}, seen.Question{})
	if err != nil || len(log.Flows) != 1 || len(log.Flows[0].Replicas) != 2 {
		t.Errorf("%+v %v", log, err)
	}
}

// TestSightedSaysWhatIsLeftOut: of a namespace that asks for more than is told apart it is said.
func TestSightedSaysWhatIsLeftOut(t *testing.T) {
	s := opened(t)
	var records []record.Record
	for i := range 20_100 {
		records = append(records, rec(0, "loud-1", fmt.Sprintf("h%d.test", i), func(r *record.Record) { r.Workload.Namespace = "loud" }))
	}
	for i := range 300 {
		records = append(records, rec(0, "cart-1", "a.test", func(r *record.Record) { r.URLPath = fmt.Sprint("/b", i) }))
	}
	keep(t, s, 1, records...)
	if err := s.Gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	log, err := seen.Sighted(t.Context(), stored{s.DB()}, seen.Question{})
	if err != nil || !reflect.DeepEqual(log.Cut, map[string]bool{"loud": true}) {
		t.Fatalf("cut %v, %v", log.Cut, err)
	}
	for _, f := range log.Flows {
		if f.Host == "a.test" && (f.Records != 300 || slices.Contains(f.Requests["GET"].Examples(), "/")) {
			t.Errorf("%d records, %q", f.Records, f.Requests["GET"].Examples())
		}
	}
}

// scannedRows are those of a plan with its figures, in JSON.
func scannedRows(t *testing.T, plan string) (rows uint64) {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(plan), &tree); err != nil {
		t.Fatal(err)
	}
	var add func(any)
	add = func(node any) {
		switch x := node.(type) {
		case []any:
			for _, of := range x {
				add(of)
			}
		case map[string]any:
			if n, is := x["operator_rows_scanned"].(float64); is {
				rows += uint64(n)
			}
			for _, of := range x {
				add(of)
			}
		}
	}
	add(tree)
	return rows
}
