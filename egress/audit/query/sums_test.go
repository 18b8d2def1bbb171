package query

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// varied are records of few workloads, hosts, rules and verdicts, over some hours; some say what nobody can have sent.
func varied(rng *rand.Rand, from, n int) (out []record.Record) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for seq := from; seq < from+n; seq++ {
		out = append(out, rec(seq, func(r *record.Record) {
			r.Time = noon.Add(-time.Duration(rng.Int64N(int64(8 * time.Hour)))).Truncate(time.Microsecond)
			r.Workload = record.Workload{Namespace: pick("shop", "bank", ""), ServiceAccount: pick("cart", "till", ""), Name: pick("cart", "cart-1", "till-0", ""), Principal: pick("", "spiffe://x/ns/a/sa/b")}
			r.Reporter, r.Direction, r.Path = pick(record.ReporterGateway, record.ReporterSidecar, record.ReporterDestination), pick("", record.Outbound), pick(record.PathGateway, "direct")
			r.DestinationWorkload.Namespace = pick("", "bank")
			r.Host, r.Port, r.Method = pick("a.test", "A.test", "b.test", "c.d.test", ""), uint32(rng.IntN(3)), pick("GET", "")
			r.BytesSent, r.BytesReceived = rng.Uint64N(1000), rng.Uint64N(1000)
			by := record.Object{Kind: pick(record.EgressPolicy, "ServiceEntry", ""), Namespace: "shop", Name: pick("list", "other"), Rule: pick("a", "default"), Revision: pick("1", "2")}
			switch rng.IntN(5) {
			case 0:
				r.Verdict, r.DecidedBy, r.Reason = record.Denied, by, pick("no rule", "it's closed")
			case 1:
				r.AllowedBy = by
			case 2:
				r.WouldDeny = by
			case 3:
				r.Class, r.Verdict, r.Count = record.Gap, "", rng.Uint64N(9)
			}
			if rng.IntN(50) == 0 {
				r.BytesSent, r.BytesReceived, r.Time = math.MaxUint64, math.MaxUint64, noon.AddDate(rng.IntN(40)-20, 0, 0)
			}
		}))
	}
	return out
}

// anyFilter is one of what the pages ask for, and of what roll-ups do not know.
func anyFilter(rng *rand.Rand) Filter {
	f := Filter{Since: noon.Add(-time.Duration(rng.Int64N(int64(9 * time.Hour))))}
	if rng.IntN(3) == 0 {
		f.Since = f.Since.Truncate(time.Hour)
	}
	f.Until = f.Since.Add(time.Duration(rng.Int64N(int64(9 * time.Hour))))
	switch rng.IntN(6) {
	case 0:
		f.Until = time.Time{}
	case 1:
		f.Since = time.Time{}
	}
	terms := []string{"workload:shop", "workload:shop/cart", "workload:*/t*,shop/cart", "-workload:shop/cart", "-workload:shop", "from:bank/cart-1", "account:cart", "host:a.test", "host:*.test", "-host:b*", "verdict:denied",
		`verdict:""`, "port:1,2", "port:>1", "policy:shop/*", "rule:default", "would-deny:*", "decided:EgressPolicy", `decided:""`, "-decided:ServiceEntry/shop/*", "class:gap", "path:direct", "reporter:destination", "method:GET",
		"bytes:>10MB", `reason:"it's closed"`, "principal:spiffe*", "direction:outbound", "url:/x"}
	var text []string
	for range rng.IntN(3) {
		text = append(text, terms[rng.IntN(len(terms))])
	}
	e, err := ParseExpression(strings.Join(text, " "))
	if err != nil {
		panic(err) // they are constants
	}
	f.Terms = e.Terms
	switch rng.IntN(4) {
	case 0:
		f.Within = []string{"shop"}
	case 1:
		f.Within = []string{"bank", "' OR true --"}
	}
	return f
}

// questions are statements like those of the pages, with the columns that they read.
var questions = []Sums{
	{Columns: []string{"verdict"}, Grain: store.Period},
	{Columns: []string{"verdict"}, Grain: 5 * time.Minute},
	{Columns: []string{"host"}},
	{Columns: []string{"namespace", "service_account", "principal"}, Workload: true},
	{Columns: []string{"decided_by_kind", "decided_by_name", "allowed_by_rule", "would_deny_kind", "reason"}},
	{Columns: []string{"method"}},
	{Columns: []string{"verdict"}, Grain: 7 * 24 * time.Hour},
	{Columns: []string{"host", "url_path"}},
}

// answer is what a question finds, a row a line.
func (s Sums) answer(t *testing.T, run func(Sums, func(*sql.Rows) error) error) (out []string) {
	t.Helper()
	by := slices.Clone(s.Columns)
	if s.Workload {
		by = append(by, "coalesce(workload, '')")
	}
	if s.Grain > 0 {
		by = append(by, fmt.Sprint("(epoch_us(began) // ", s.Grain.Microseconds(), ")"))
	}
	s.Statement = func(relation string) string {
		return "SELECT concat_ws('|', " + strings.Join(by, ", ") + ", sum(records), sum(lost), least(sum(bytes_sent::HUGEINT + bytes_received), 18446744073709551615), epoch_us(min(first)), epoch_us(max(last)), epoch_us(max(ingested)), approx_count_distinct(verdict)) FROM " +
			relation + " GROUP BY " + strings.Join(by, ", ")
	}
	if !slices.Contains(s.Columns, "verdict") {
		s.Columns = append(slices.Clone(s.Columns), "verdict")
	}
	err := run(s, func(rows *sql.Rows) error {
		var line string
		err := rows.Scan(&line)
		out = append(out, line)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

// plainly is the relation with a row for each record, of the view that is everybody's.
func (s Sums) plainly() (string, []any) {
	columns := slices.Clone(s.Columns)
	if s.Workload {
		columns = append(columns, store.NamedByPod+" AS workload")
	}
	columns = append(columns, "time AS began", "time AS first", "time AS last", "1::UBIGINT AS records", "lost", "bytes_sent", "bytes_received", "ingested")
	condition, args := s.Filter.Condition()
	return "(SELECT " + strings.Join(columns, ", ") + " FROM " + store.Table + " WHERE " + condition + ")", args
}

// TestSumsAreThoseOfTheRecords: however records came in and went, were gathered and merged, and whatever is asked for, roll-ups answer what the records do.
func TestSumsAreThoseOfTheRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ctx, dir, hand := t.Context(), t.TempDir(), clock.At(noon.Add(time.Hour))
	open := func() *store.Store {
		s, err := store.Open(ctx, dir, store.Options{Now: hand.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	defer func() { _ = s.Close() }()
	used := 0
	vain, err := lru.New[string, struct{}](100)
	if err != nil {
		t.Fatal(err)
	}
	for round := range 24 {
		if err := s.Store(ctx, varied(rng, 1+round*60, 60)); err != nil {
			t.Fatal(err)
		}
		var err error
		switch round % 5 {
		case 0, 2:
			err = s.Gather(ctx)
		case 3:
			hand.Advance(10 * time.Minute)
			_, err = s.Prune(ctx, noon.Add(-8*time.Hour+time.Duration(round)*9*time.Minute))
		case 4: // and merged, when it is opened
			err = s.Close()
			s = open()
		}
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			q := questions[rng.IntN(len(questions))]
			q.Filter = anyFilter(rng)
			if rng.IntN(2) == 0 {
				q.Vain = vain
			}
			want := q.answer(t, func(q Sums, f func(*sql.Rows) error) error {
				relation, args := q.plainly()
				rows, err := s.DB().QueryContext(ctx, q.Statement(relation), args...)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					if err := f(rows); err != nil {
						return err
					}
				}
				return rows.Err()
			})
			got := q.answer(t, func(q Sums, f func(*sql.Rows) error) error { return q.Each(ctx, s.DB(), f) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("round %d: %s %v, from %s until %s, within %q: %s", round, Expression{Terms: q.Filter.Terms}, q.Columns, q.Filter.Since, q.Filter.Until, q.Filter.Within, diff)
			}
			if _, _, ok := q.fromRollups(hand.Now()); ok && len(want) > 0 {
				used++
			}
		}
	}
	if used < 200 {
		t.Errorf("%d questions were asked of roll-ups", used)
	}
}

// TestSumsOfAFolderWithout: who reads a folder that has no roll-ups reads records.
func TestSumsOfAFolderWithout(t *testing.T) {
	db := filled(t, sample()...)
	if _, err := db.Exec("UPDATE inputs_state SET version = 1"); err != nil {
		t.Fatal(err)
	}
	var n int
	s := Sums{Statement: func(relation string) string { return "SELECT sum(records)::INTEGER FROM " + relation }}
	if err := s.Each(context.Background(), db, func(rows *sql.Rows) error { return rows.Scan(&n) }); err != nil || n != len(sample()) {
		t.Errorf("%d records, %v", n, err)
	}
}
