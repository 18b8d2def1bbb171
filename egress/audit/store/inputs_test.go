package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// inputsOf are a database's, in an order of their own.
func inputsOf(t testing.TB, db *sql.DB, filter InputsFilter) (out []inputs.Input) {
	t.Helper()
	if err := EachInput(context.Background(), db, filter, func(x *inputs.Input) error { out = append(out, *x); return nil }); err != nil {
		t.Fatal(err)
	}
	return sorted(out)
}

func sorted(list []inputs.Input) []inputs.Input {
	slices.SortFunc(list, func(a, b inputs.Input) int {
		return cmp.Or(strings.Compare(fmt.Sprint(a.Question), fmt.Sprint(b.Question)), strings.Compare(fmt.Sprint(a.Outcome), fmt.Sprint(b.Outcome)))
	})
	return list
}

// gatherNow does what the gatherer does when it is due.
func gatherNow(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Gather(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// plainInputs makes inputs of records, one after the other.
func plainInputs(records []record.Record) []inputs.Input {
	type key struct {
		inputs.Question
		inputs.Outcome
	}
	suffix := regexp.MustCompile(replica)
	of := map[key]*inputs.Input{}
	days, pods := map[key]map[string]bool{}, map[key]map[string]bool{}
	for i := range records {
		r := &records[i]
		k := key{
			inputs.Question{
				Namespace: r.Workload.Namespace, ServiceAccount: r.Workload.ServiceAccount, Workload: suffix.ReplaceAllString(r.Workload.Name, ""), Labels: r.Workload.Labels,
				Claim: r.Claim, Reporter: r.Reporter, Direction: r.Direction, Class: r.Class, Protocol: r.Protocol, Host: r.Host, Port: r.Port, Method: r.Method,
				URLPath: r.URLPath, Dialled: r.Dialled, SNI: r.SNI, Cut: strings.Join(r.Cut, ","),
			},
			inputs.Outcome{Verdict: r.Verdict, Path: r.Path, DecidedBy: r.DecidedBy, AllowedBy: r.AllowedBy, WouldDeny: r.WouldDeny},
		}
		if r.Verdict == record.Denied && r.DecidedBy.Kind == "" && r.Class != record.DNS {
			k.Reason = r.Reason
		}
		x := of[k]
		if x == nil {
			x = &inputs.Input{Question: k.Question, Outcome: k.Outcome, First: r.Time, Last: r.Time}
			of[k], days[k], pods[k] = x, map[string]bool{}, map[string]bool{}
		}
		x.Count, x.Lost, x.BytesSent, x.BytesReceived = x.Count+1, x.Lost+r.Count, x.BytesSent+r.BytesSent, x.BytesReceived+r.BytesReceived
		days[k][r.Time.Format(time.DateOnly)], pods[k][r.Workload.Name] = true, true
		x.Days, x.Replicas = uint32(len(days[k])), uint32(len(pods[k]))
		if r.Time.Before(x.First) {
			x.First = r.Time
		}
		if r.Time.After(x.Last) {
			x.Last = r.Time
		}
	}
	var out []inputs.Input
	for _, x := range of {
		out = append(out, *x)
	}
	return sorted(out)
}

// randomRecords are of a few workloads, hosts and verdicts, over four days.
func randomRecords(rng *rand.Rand, from, n uint64) (out []record.Record) {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	for seq := from; seq < from+n; seq++ {
		r := rec(seq)
		r.Time = start2027.Add(time.Duration(rng.Int64N(int64(4 * 24 * time.Hour)))).Truncate(time.Microsecond)
		r.Workload = record.Workload{Namespace: pick("shop", "bank"), ServiceAccount: pick("cart", "till"), Labels: pick("", "app=cart"),
			Name: pick("cart-6d5f7c9b4-x2x7k", "cart-6d5f7c9b4-bbbbb", "cart-0", "cart-1", "")}
		r.Host, r.Port, r.Method, r.URLPath = pick("a.test", "b.test"), 443, pick("GET", ""), pick("/", "/x'y/z", "/ü")
		r.Reporter, r.Dialled, r.BytesSent = pick("gateway", "sidecar"), pick("", "192.0.2.1:443"), rng.Uint64N(1000)
		if r.SNI = pick("a.test", "b.test", ""); r.SNI == r.Host {
			r.SNI = ""
		}
		switch rng.IntN(4) {
		case 0:
			r.Verdict, r.DecidedBy = record.Denied, record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "list", Rule: "a/b", Revision: "1f"}
			r.Reason = pick("it came back", "nobody said") // no input's, since an object decided
		case 1:
			r.Verdict, r.Reason = record.Denied, pick("it came back", "its memory is full")
		case 2:
			r.AllowedBy, r.Reason = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "list"}, "registered"
		case 3:
			r.Class, r.Verdict, r.Count = record.Gap, "", rng.Uint64N(9)
		}
		out = append(out, r)
	}
	return out
}

// TestInputs: however records came in, were gathered and merged, the inputs are those of the records.
func TestInputs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dir, hand := t.TempDir(), clock.At(start2027.Add(4*24*time.Hour))
	o := Options{Now: hand.Now}
	s := open(t, dir, o)
	var all []record.Record
	for round := range 12 {
		batch := randomRecords(rng, uint64(1+len(all)), 50)
		all = append(all, batch...)
		put(t, s, batch...)
		put(t, s, batch[:10]...) // copies
		switch round % 4 {
		case 0:
			gatherNow(t, s)
		case 1:
			hand.Advance(-time.Hour) // the clock is put back
		case 2:
			if err := s.tidy(t.Context()); err != nil {
				t.Fatal(err)
			}
		case 3:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, o)
		}
		got, want := inputsOf(t, s.DB(), InputsFilter{}), plainInputs(all)
		for i := range min(len(got), len(want)) { // of several gatherings nobody knows which pods are the same
			if got[i].Replicas > want[i].Replicas || got[i].Replicas == 0 {
				t.Errorf("%d replicas, want at most %d", got[i].Replicas, want[i].Replicas)
			}
		}
		if diff := gocmp.Diff(want, got, cmpopts.IgnoreFields(inputs.Input{}, "Replicas")); diff != "" {
			t.Fatalf("round %d: %d inputs, want %d: %.3000s", round, len(got), len(want), diff)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := OpenReadOnly(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if diff := gocmp.Diff(plainInputs(all), inputsOf(t, db, InputsFilter{}), cmpopts.IgnoreFields(inputs.Input{}, "Replicas")); diff != "" {
		t.Errorf("without a writer: %.2000s", diff)
	}
}

func TestInputsFilter(t *testing.T) {
	s := open(t, t.TempDir(), Options{Now: func() time.Time { return start2027.Add(time.Hour) }})
	put(t, s, recs(1, 5)...)
	gatherNow(t, s)
	put(t, s, recs(6, 10)...)
	hosts := func(f InputsFilter) (out []string) {
		for _, x := range inputsOf(t, s.DB(), f) {
			out = append(out, x.Host)
		}
		return out
	}
	if got := hosts(InputsFilter{Since: rec(4).Time, Until: rec(8).Time}); !slices.Equal(got, []string{"h4.test", "h5.test", "h6.test", "h7.test"}) {
		t.Errorf("%v", got)
	}
	if got := hosts(InputsFilter{Where: "host IN (?, ?)", Args: []any{"h2.test", "h9.test"}, Since: rec(3).Time}); !slices.Equal(got, []string{"h9.test"}) {
		t.Errorf("%v", got)
	}
}

// TestHostileInputs: what one account makes up is bounded, counted, and nobody else's loss.
func TestHostileInputs(t *testing.T) {
	s := open(t, t.TempDir(), Options{Now: func() time.Time { return start2027.Add(time.Hour) }})
	batch := recs(1, maxInputs+3*maxPaths)
	for i := range batch {
		r := &batch[i]
		r.BytesSent, r.Workload = math.MaxUint64, record.Workload{Namespace: "bad", ServiceAccount: "bad"}
		if i < 2*maxPaths {
			r.Host, r.URLPath = "one.test", fmt.Sprint("/", i)
		}
		if i%1000 == 0 {
			r.Time = time.Date(9000, 1, i%28+1, 0, 0, 0, 0, time.UTC)
		}
	}
	good := rec(1)
	good.Proxy, good.Workload.Namespace = "good", "good"
	put(t, s, append(batch, good)...)
	for range 2 {
		gatherNow(t, s)
		if err := s.tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		var counted uint64
		kept := map[string]int{}
		for _, x := range inputsOf(t, s.DB(), InputsFilter{}) {
			counted += x.Count
			kept[x.Beyond]++
			if x.Namespace == "good" && (x.Host != good.Host || x.Beyond != "") {
				t.Errorf("%+v", x)
			}
			if x.Beyond != "" && (x.Namespace != "bad" || x.URLPath != "" || x.Verdict != record.Allowed) || x.Last.After(start2027.Add(26*time.Hour)) {
				t.Errorf("%+v", x)
			}
		}
		if want := uint64(len(batch) + 1); counted != want || kept[""] > maxInputs+50 || kept[""] < maxInputs/2 || kept[inputs.BeyondPaths] != 1 || kept[inputs.BeyondHosts] != 1 {
			t.Errorf("%d records, want %d; %v", counted, want, kept)
		}
	}
}

// TestInputsAreMadeAnew: of a folder of before them, or of another version.
func TestInputsAreMadeAnew(t *testing.T) {
	dir := oldFolder(t, oldest)
	db, err := OpenReadOnly(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := inputsOf(t, db, InputsFilter{}); len(got) != 5000 {
		t.Errorf("%d inputs without a table", len(got))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	gatherNow(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = connect(t.Context(), filepath.Join(dir, FileName), false, Options{}.withDefaults()); err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec("UPDATE input_kinds SET host = 'wrong'; UPDATE inputs_state SET version = 0")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Options{})
	put(t, s, rec(5001))
	gatherNow(t, s)
	if got := inputsOf(t, s.DB(), InputsFilter{Where: "host <> 'wrong'"}); len(got) != 5001 {
		t.Errorf("%d inputs", len(got))
	}
	var n int
	if err := s.DB().QueryRow("SELECT sum(records) FROM inputs").Scan(&n); err != nil || n != 5001 {
		t.Errorf("%d records in the table, %v", n, err)
	}
}

func TestInputsGoWithTheirDay(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, t.TempDir(), Options{Now: hand.Now, Retention: 48 * time.Hour})
	put(t, s, recs(1, 10)...)
	gatherNow(t, s)
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{47 * time.Hour, 10}, {49 * time.Hour, 10}, {73 * time.Hour, 0}} { // the day's last records are not older than that
		hand.Set(start2027.Add(step.after))
		if err := s.tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := inputsOf(t, s.DB(), InputsFilter{}); len(got) != step.want {
			t.Errorf("after %s: %d inputs", step.after, len(got))
		}
	}
}

// TestAskingWhileItWorks: whoever asks meanwhile misses nothing, and sees nothing twice.
func TestAskingWhileItWorks(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	ctx, done := context.WithCancel(t.Context())
	gathering := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := s.Gather(context.Background()); err != nil {
				gathering <- err
				return
			}
			if err := s.tidy(context.Background()); err != nil {
				gathering <- err
				return
			}
		}
		gathering <- nil
	}()
	for i := range uint64(60) {
		put(t, s, recs(i*20+1, i*20+20)...)
		var sum uint64
		for _, x := range inputsOf(t, s.DB(), InputsFilter{}) {
			sum += x.Count
		}
		if sum != i*20+20 {
			t.Fatalf("%d records of %d", sum, i*20+20)
		}
	}
	done()
	if err := <-gathering; err != nil {
		t.Error(err)
	}
}

// TestActionsAreNoTraffic: what people do is neither an input nor a sighting.
func TestActionsAreNoTraffic(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	did := rec(1)
	did.Proxy, did.Class, did.Action, did.Actor, did.Verdict = "sallyport-actions", record.Action, "approved", "ann", ""
	put(t, s, did, rec(2))
	count := func(when string) {
		t.Helper()
		var seen, of int
		if err := s.DB().QueryRow("SELECT count(*), count(*) FILTER (class = 'action') FROM "+sightings(t, s)).Scan(&seen, &of); err != nil || seen != 1 || of != 0 {
			t.Errorf("%s: %d sightings, %d of actions, %v", when, seen, of, err)
		}
	}
	count("as they come")
	if err := s.Gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	count("gathered")
}
