package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// TestEachColumnHasOneHome: no column of the schema is in two tables, and none that parts name is unknown.
func TestEachColumnHasOneHome(t *testing.T) {
	homes := map[string]string{}
	for _, p := range parts {
		for _, name := range p.columns {
			if byName[name] == nil && name != sourceAddress || homes[name] != "" {
				t.Errorf("%s of %s is no column of the schema, or is in %s, too", name, p.table, homes[name])
			}
			homes[name] = p.table
		}
	}
	for i := range schema.Columns {
		name := schema.Columns[i].Name
		if home := homeOf(name); columnsOf(home)[name] == nil && madeOf[name] == "" {
			t.Errorf("%s is not put into %s", name, home)
		}
	}
}

func TestSplitSource(t *testing.T) {
	for source, want := range map[string]string{
		"10.0.0.1:443": "10.0.0.1 443", "[fd00::1]:1": "[fd00::1] 1", "10.0.0.1:0": "10.0.0.1 0", "x:65535": "x 65535", ":80": " 80", "a:b:99999": "a:b 99999",
		"": "", "10.0.0.1": "", "10.0.0.1:": "", "10.0.0.1:080": "", "fd00::abcd": "", "x:123456": "", "x:-1": "", "x:+1": "", "x:1 ": "", "x:٣": "", "pipe": "",
	} {
		address, port, some := splitSource(source)
		if got := fmt.Sprint(address, " ", port); some != (want != "") || some && got != want || !some && address != source {
			t.Errorf("%q: %q, %v, want %q", source, got, some, want)
		}
		if some && fmt.Sprint(address, ":", port) != source {
			t.Errorf("%q comes back as %s:%d", source, address, port)
		}
	}
}

// anyRecord is one of few values in each of its parts, with some that look like others when they stand one after the other.
func anyRecord(rng *rand.Rand, seq uint64) record.Record {
	pick := func(of ...string) string { return of[rng.IntN(len(of))] }
	r := rec(seq)
	r.Proxy, r.Epoch = pick("a", "ab", "abc"), uint64(1+rng.IntN(2))
	r.Workload = record.Workload{Principal: pick("", "x", "xy"), Namespace: pick("", "y", "yz"), ServiceAccount: pick("", "z"), Name: pick("", "p-1"), Labels: pick("", "a=b")}
	r.Source, r.ForwardedFor, r.Claim = pick("", "10.0.0.1:1", "10.0.0.1:2", "10.0.0.1", "10.0.0.1:01", "\xff:1", "nul\x00:7", "[::1]:65535", "h:99999"), pick("", "1.2.3.4"), pick("", "c")
	r.Host, r.SNI, r.Authority, r.Port = pick("", "h", "\xff\xfe", "nul\x00"), pick("", "h"), pick("", "h"), uint32(rng.IntN(3))
	r.DestinationWorkload.Namespace, r.Destination = pick("", "d"), pick("", "d")
	r.Method, r.Status, r.URLPath = pick("", "GET"), uint32(rng.IntN(2)*200), pick("", "/", "/x")
	r.DecidedBy, r.AllowedBy = record.Object{Kind: pick("", "K"), Name: pick("", "K")}, record.Object{Rule: pick("", "r")}
	if rng.IntN(4) == 0 {
		r.Class, r.Count = record.Gap, uint64(rng.IntN(5))
	}
	if rng.IntN(4) == 0 {
		r.Flags, r.Cut = []string{"UF", "DC"}[:1+rng.IntN(2)], []string{"host"}
	}
	if rng.IntN(8) == 0 { // too many to be counted
		r.Seq += numbered - 100
	}
	r.Duration = time.Duration(rng.Int64N(1<<40) - 1<<20)
	return r
}

// stored is a record as it comes back.
func stored(r record.Record) record.Record {
	for _, text := range []*string{&r.Source, &r.Host} {
		*text = schema.Storable(*text)
	}
	r.Duration = r.Duration.Truncate(time.Microsecond)
	return r
}

// TestPartsArePutTogether: whatever records have in common, each comes back as it was, also after the store was opened again, days later, when there was too
// much to remember, and when a transaction failed meanwhile.
func TestPartsArePutTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	dir, hand := t.TempDir(), clock.At(start2027)
	o := Options{Now: hand.Now}
	s := open(t, dir, o)
	var want []record.Record
	for round := range 12 {
		var batch []record.Record
		for range 200 {
			batch = append(batch, anyRecord(rng, uint64(len(want)+len(batch)+1)))
		}
		switch round {
		case 3, 7:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, o)
		case 5:
			hand.Advance(30 * time.Hour)
		case 6, 9:
			failing(t, s, batch)
		case 8, 10: // no room is left, in some
			for _, d := range s.dictionaries[round%4:] {
				d.bytes = maxKeys + 1
			}
		}
		put(t, s, batch...)
		for _, r := range batch {
			want = append(want, stored(r))
		}
	}
	slices.SortFunc(want, func(a, b record.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	if diff := gocmp.Diff(want, all(t, s.DB())); diff != "" {
		t.Fatalf("%.3000s", diff)
	}
	for _, p := range parts {
		var rows int
		if err := s.DB().QueryRow("SELECT count(*) FROM " + p.table).Scan(&rows); err != nil || rows == 0 || rows >= len(want)*3/2 {
			t.Errorf("%s has %d rows for %d records, %v", p.table, rows, len(want), err)
		}
	}
}

// failing has the writer write records in a transaction that fails.
func failing(t *testing.T, s *Store, batch []record.Record) {
	t.Helper()
	full := errors.New("full")
	_, err := ask(t.Context(), s, func(context.Context) (struct{}, error) {
		now := s.moment()
		err := s.writer.Transact(func() error { return errors.Join(s.append([][]record.Record{batch}, now), full) })
		for _, d := range s.dictionaries {
			d.end(err == nil)
		}
		return struct{}{}, err
	})
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
}

// TestPartsAreShared: what records have in common is there once for a day.
func TestPartsAreShared(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, t.TempDir(), Options{Now: hand.Now})
	for i := range uint64(3) {
		put(t, s, recs(i*10+1, i*10+10)...)
	}
	wantParts := func(want string) {
		t.Helper()
		if got := partRows(t, s); got != want {
			t.Errorf("parts are there %s times, want %s", got, want)
		}
	}
	wantParts("1 1 30 1") // each record is of a host of its own
	hand.Advance(24 * time.Hour)
	put(t, s, recs(31, 40)...)
	wantParts("2 2 40 2")
	for _, step := range []struct {
		before time.Duration // of the records' time
		want   string
	}{{20500 * time.Millisecond, "2 2 40 2"}, {30500 * time.Millisecond, "1 1 10 1"}} {
		if _, err := s.Prune(t.Context(), start2027.Add(step.before)); err != nil {
			t.Fatal(err)
		}
		wantParts(step.want)
	}
	put(t, s, recs(41, 42)...)
	wantRows(t, s, 12)
}

// TestTooManyParts: who makes things up has his records stored whole, and the tables that every question joins stay short; what others send goes on to
// be numbered, and adds up with the rest.
func TestTooManyParts(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, t.TempDir(), Options{Now: hand.Now})
	put(t, s, recs(1, 10)...)
	for _, d := range s.dictionaries {
		d.bytes = maxKeys - 5*perKey
	}
	made := recs(11, 100)
	for i := range made {
		made[i].Host = strings.Repeat("x", i) + ".evil.test"
	}
	put(t, s, made...)
	again := recs(1, 10)
	for i := range again {
		again[i].Seq += 100
	}
	put(t, s, again...)
	counts := func() string {
		var rows, whole, targets int
		if err := s.DB().QueryRow("SELECT (SELECT count(*) FROM record_rows), (SELECT count(*) FROM record_whole), (SELECT count(*) FROM record_targets)").Scan(&rows, &whole, &targets); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(rows, whole, targets)
	}
	if got := counts(); got != "24 86 14" {
		t.Errorf("rows, whole ones and targets: %s", got)
	}
	wantRows(t, s, 110)
	gatherNow(t, s)
	wantRolled(t, s, 110)
	hand.Advance(24 * time.Hour)
	last := rec(111)
	last.Host = "new.test"
	put(t, s, last)
	if got := counts(); got != "25 86 15" {
		t.Errorf("a day later: rows, whole ones and targets: %s", got)
	}
}

// TestPartsHaveNoOthers: of a record that is stored whole, since one of its parts finds no room, no other part has a row.
func TestPartsHaveNoOthers(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	put(t, s, recs(1, 3)...)
	last := s.dictionaries[len(s.dictionaries)-1]
	last.bytes = maxKeys + 1
	before := partRows(t, s)
	made := recs(4, 6)
	for i := range made {
		made[i].Proxy, made[i].Workload.Name, made[i].Host, made[i].Method = fmt.Sprint("p", i), fmt.Sprint("w", i), fmt.Sprint("h", i), fmt.Sprint("M", i)
	}
	put(t, s, made...)
	if got := partRows(t, s); got != before {
		t.Errorf("parts have %s rows, %s before", got, before)
	}
	last.bytes = 0
	for i := range made {
		made[i].Seq += 10
	}
	put(t, s, made...)
	if diff := gocmp.Diff(9, len(all(t, s.DB()))); diff != "" {
		t.Error(diff)
	}
}

// TestShares: a namespace that uses up what is for everybody leaves others their shares, and no more than that is used.
func TestShares(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	targets := s.dictionaries[2]
	targets.begin(s.moment())
	fill := func(namespace string) (n int) {
		for i := range 1_000_000 {
			r := record.Record{Workload: record.Workload{Namespace: namespace}, Host: fmt.Sprintf("%s-%d-%0200d.test", namespace, i, 0)}
			if _, some := targets.number(&r); !some {
				return n
			}
			n++
		}
		return n
	}
	first, second := fill("greedy"), fill("modest")
	if first < 20_000 || first > 40_000 || second < 500 || second > 1_500 {
		t.Errorf("the first one has %d, the second one %d", first, second)
	}
	for i := range 100 {
		fill(fmt.Sprint("ns-", i))
	}
	if targets.bytes > maxKeys+1024 || fill("late") != 0 {
		t.Errorf("%d bytes", targets.bytes)
	}
	targets.end(false)
	if targets.bytes != 0 || len(targets.ids) != 0 || targets.used["greedy"] != 0 {
		t.Errorf("%d bytes, %d numbers after a transaction that failed", targets.bytes, len(targets.ids))
	}
}

// partRows is how many rows the parts' tables have.
func partRows(t *testing.T, s *Store) string {
	t.Helper()
	var out []string
	for _, p := range parts {
		var rows int
		if err := s.DB().QueryRow("SELECT count(*) FROM " + p.table).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprint(rows))
	}
	return strings.Join(out, " ")
}

// TestEarlierRecordsGo: those that an older version wrote are deleted by their age like others.
func TestEarlierRecordsGo(t *testing.T) {
	hand := clock.At(start2027)
	s := open(t, oldFolder(t, oldest, later, second), Options{Now: hand.Now})
	put(t, s, recs(5001, 5002)...)
	hand.Advance(48 * time.Hour) // since they all came in
	for _, tt := range []struct {
		before time.Time
		left   int
	}{{start2027, 5002}, {start2027.Add(4999500 * time.Millisecond), 3}, {hand.Now().AddDate(20, 0, 0), 0}} {
		if _, err := s.Prune(t.Context(), tt.before); err != nil {
			t.Fatal(err)
		}
		wantRows(t, s, tt.left)
	}
	put(t, s, recs(5003, 5005)...)
	wantRows(t, s, 3)
}
