package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func recentOf(t testing.TB, s *Store, filter RecentFilter) (out []inputs.Input) {
	t.Helper()
	if err := EachRecent(t.Context(), s.DB(), filter, func(x *inputs.Input) error { out = append(out, *x); return nil }); err != nil {
		t.Fatal(err)
	}
	return sorted(out)
}

// TestRecent: what came in lately is told by these records alone, whatever was gathered.
func TestRecent(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	hand := clock.At(start2027.Add(4 * 24 * time.Hour))
	s := open(t, t.TempDir(), Options{Now: hand.Now})
	put(t, s, randomRecords(rng, 1, 50)...)
	gatherNow(t, s)
	hand.Advance(time.Hour)
	lately := randomRecords(rng, 51, 50)
	put(t, s, lately...)
	gatherNow(t, s)
	since := hand.Now().Add(-time.Minute)
	same := cmpopts.IgnoreFields(inputs.Input{}, "Replicas", "Days")
	if diff := gocmp.Diff(plainInputs(lately), recentOf(t, s, RecentFilter{Since: since, Most: 1000}), same); diff != "" {
		t.Errorf("%.2000s", diff)
	}
	var shop []record.Record
	for _, r := range lately {
		if r.Workload.Namespace == "shop" {
			shop = append(shop, r)
		}
	}
	if diff := gocmp.Diff(plainInputs(shop), recentOf(t, s, RecentFilter{Since: since, Namespaces: []string{"shop", "nobody"}, Most: 1000}), same); diff != "" {
		t.Errorf("of a namespace: %.2000s", diff)
	}
}

func TestRecentIsBounded(t *testing.T) {
	s := open(t, t.TempDir(), Options{Now: func() time.Time { return start2027.Add(time.Hour) }})
	put(t, s, append(recs(1, 30), func() (often []record.Record) {
		for _, r := range recs(31, 40) {
			r.Host = "often.test"
			often = append(often, r)
		}
		return often
	}()...)...)
	got := recentOf(t, s, RecentFilter{Since: start2027, Most: 3})
	most := uint64(0)
	for _, x := range got {
		most = max(most, x.Count)
	}
	if len(got) != 3 || most != 10 {
		t.Errorf("%d inputs, the greatest of %d records: %+v", len(got), most, got)
	}
	quiet := recs(41, 41) // of a namespace that did less than any of these
	quiet[0].Workload.Namespace = "quiet"
	put(t, s, quiet...)
	if got = recentOf(t, s, RecentFilter{Since: start2027, Most: 3}); len(got) != 3 || !slices.ContainsFunc(got, func(x inputs.Input) bool { return x.Namespace == "quiet" }) {
		t.Errorf("what one namespace asked for pushes out what another one did: %+v", got)
	}
}

// BenchmarkRecent asks for what 200 workloads of 50 namespaces asked for in an hour of 500,000 records: of all, and of one namespace. Another
// 500,000 are older.
func BenchmarkRecent(b *testing.B) {
	hand := clock.At(start2027)
	s := open(b, b.TempDir(), Options{Now: hand.Now})
	fill := func(from, to uint64) {
		var batch []record.Record
		for seq := from; seq < to; seq++ {
			r := usual(seq)
			r.Host, r.URLPath = fmt.Sprintf("h%d.test", seq%50), fmt.Sprintf("/v1/things/%d", seq%7)
			r.Workload.Namespace, r.Workload.ServiceAccount = fmt.Sprint("ns-", seq%50), fmt.Sprint("cart-", seq%200)
			r.Workload.Name = fmt.Sprintf("cart-6d5f7c9b4-x2x7%c", "bcdfghjklm"[seq%10])
			if batch = append(batch, r); len(batch) == 10_000 {
				put(b, s, batch...)
				batch = batch[:0]
			}
		}
	}
	fill(1, 500_001)
	hand.Advance(time.Hour)
	fill(500_001, 1_000_001)
	for name, namespaces := range map[string][]string{"all": nil, "one namespace": {"ns-7"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				recentOf(b, s, RecentFilter{Since: hand.Now(), Namespaces: namespaces, Most: 20_000})
			}
		})
	}
}
