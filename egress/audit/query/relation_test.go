package query

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// TestRelations: what joins some parts alone, or few records alone, has what the view has, whatever is asked for.
func TestRelations(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	s, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	records := varied(rng, 1, 2000)
	for i := range records {
		records[i].Source = []string{"", "10.0.0.1:1", "10.0.0.1", "10.0.0.2:65535"}[rng.IntN(4)]
	}
	if err := s.Store(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	lines := func(statement string, args ...any) (out []string) {
		t.Helper()
		rows, err := s.DB().QueryContext(context.Background(), statement, args...)
		if err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		defer rows.Close()
		for rows.Next() {
			r, err := store.ScanRecord(rows)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%+v", r))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	numbers := func(statement string, args ...any) (n, sum int64) {
		t.Helper()
		if err := s.DB().QueryRowContext(context.Background(), "SELECT count(*), coalesce(sum(hash(seq, host, source) % 1000), 0)::BIGINT FROM "+statement, args...).Scan(&n, &sum); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		return n, sum
	}
	some := 0
	for range 60 {
		f := anyFilter(rng)
		if rng.IntN(3) == 0 {
			e, err := ParseExpression("source:10.0.0.1*")
			if err != nil {
				t.Fatal(err)
			}
			f.Terms = append(f.Terms, e.Terms...)
		}
		where, args := f.Condition()
		want := lines("SELECT "+store.Columns()+" FROM "+store.Table+" WHERE port <= ? AND "+where+" ORDER BY seq", append([]any{1}, args...)...)
		few, values := f.Few([]string{"port"}, "port <= ?", 1)
		if diff := cmp.Diff(want, lines("SELECT "+store.Columns()+" FROM "+few+" ORDER BY seq", values...)); diff != "" {
			t.Fatalf("%s: %.2000s", where, diff)
		}
		n, sum := numbers(store.Table+" WHERE "+where, args...)
		if gotN, gotSum := numbers(f.Relation("seq", "host", "source")+" WHERE "+where, args...); gotN != n || gotSum != sum {
			t.Fatalf("%s: %d records, %d of the view", where, gotN, n)
		}
		if n > 0 {
			some++
		}
	}
	if some < 20 {
		t.Errorf("%d filters chose something", some)
	}
}
