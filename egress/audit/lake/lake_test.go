package lake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		writeUntilKilled(dir)
		return
	}
	leaks.Verify(m)
}

// now is in the middle of a day, so that no record's day depends on when the test runs.
var now = time.Date(2027, 1, 20, 12, 0, 0, 0, time.UTC)

// clock goes on by itself, a millisecond with each look.
func clock() func() time.Time {
	var ticks atomic.Int64
	return func() time.Time { return now.Add(time.Duration(ticks.Add(1)) * time.Millisecond) }
}

// random are records with all that records may have, hostile texts among them.
func random(seed uint64, n int) []record.Record {
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	object := func() record.Object {
		return record.Object{Kind: pick("", record.EgressPolicy, "ServiceEntry"), Namespace: pick("", "shop"), Name: pick("", "list", "a'b"), Rule: pick("", "default", "rules[1]"), Revision: pick("", "abc")}
	}
	source := func() string {
		return pick("", "10.0.0.1:4000", "[2001:db8::1]:80", "[::ffff:1.2.3.4]:1", "10.0.0.1:0400", "10.0.0.1:99999999999", "pipe", "1.2.3.4", "10.0.0.1:65535", "[10.0.0.1]:3", "300.1.1.1:7", "\xff:1")
	}
	out := make([]record.Record, n)
	for i := range out {
		out[i] = record.Record{
			Proxy: pick("p1", "sidecar~10.0.0.1~a.b~b"), Epoch: seed, Seq: uint64(i), Time: now.Add(-time.Duration(r.Int64N(int64(30 * time.Hour)))).Truncate(time.Microsecond),
			Class: record.Class(pick("network", "http", "dns", "gap", "other")), Verdict: record.Verdict(pick("allowed", "denied", "")), Path: pick("gateway", "", "blackhole"),
			Reporter: pick("sidecar", "gateway"), Direction: pick("", "outbound", "inbound", "lateral"),
			Workload: record.Workload{Principal: pick("", "spiffe://cluster.local/ns/shop/sa/cart"), Namespace: pick("", "shop", "pay"), ServiceAccount: pick("", "cart"), Name: pick("", "cart-1", "cart-7d4b9c6f5d-x2x4z"), Labels: pick("", "app=cart")},
			Source:   source(), DestinationWorkload: record.Workload{Principal: pick("", "x"), Namespace: pick("", "b"), ServiceAccount: pick("", "c"), Name: pick("", "d"), Labels: pick("", "e=f")},
			Claim: pick("", "spiffe://x"), ForwardedFor: pick("", "1.2.3.4"), Host: pick("", "api.example.com", "A.EVIL.test", "'; DROP TABLE records; --", "ü.test"), Port: uint32(r.IntN(3)) * 443,
			SNI: pick("", "api.example.com"), Authority: pick("", "a:80"), Destination: source(), Dialled: source(), Protocol: pick("http", "tls", "tcp", "dns", ""),
			Method: pick("", "GET", "PROPFIND", "POST"), URLPath: pick("", "/", "/a/b?c", "/%00\x00"), Status: uint32(r.IntN(3)) * 200, Cluster: pick("", "outbound|443||x"), Route: pick("", "r"),
			DecidedBy: object(), Reason: pick("", "not registered"), AllowedBy: object(), WouldDeny: object(),
			BytesSent: r.Uint64() >> 1, BytesReceived: uint64(r.IntN(1000)), Duration: time.Duration(r.Int64N(int64(time.Hour))), Flags: strings.Split(pick("UF,URX", "NR"), ","),
			Count: uint64(r.IntN(5)), Cut: nil,
		}
		if r.IntN(400) == 0 { // a clock that is wrong
			out[i].Time = now.AddDate(-r.IntN(60), 0, 0)
		}
		if r.IntN(400) == 0 {
			out[i].Time = now.AddDate(r.IntN(60), 0, 0)
		}
	}
	return out
}

// lab is a store, and a writer from it to a folder.
type lab struct {
	dir, lake string
	store     *store.Store
	clock     func() time.Time
}

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{dir: t.TempDir(), lake: filepath.Join(t.TempDir(), "the 'lake'"), clock: clock()}
	l.open(t)
	t.Cleanup(func() { _ = l.store.Close() })
	return l
}

func (l *lab) open(t testing.TB) {
	t.Helper()
	var err error
	if l.store, err = store.Open(context.Background(), l.dir, store.Options{Held: []string{Holder}, Scratch: scratchOf(l.dir), Now: l.clock}); err != nil {
		t.Fatal(err)
	}
}

func scratchOf(dir string) string { return filepath.Join(dir, "lake") }

func (l *lab) add(t testing.TB, records []record.Record) {
	t.Helper()
	if err := l.store.Store(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) place(t testing.TB) place.Place {
	t.Helper()
	p, err := place.Parse(l.lake, place.Access{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// writer makes a writer of small files.
func (l *lab) writer(t testing.TB, p place.Place) *Writer {
	t.Helper()
	w, err := NewWriter(Options{Store: l.store, Place: p, Dir: l.dir, Scratch: scratchOf(l.dir), Region: "eu", Cluster: "one", Records: 400, FileBytes: 200_000, Now: l.clock})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (l *lab) source(t testing.TB, p place.Place) query.Source {
	t.Helper()
	s, err := Open(p, ReadOptions{Cache: t.TempDir()})
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

func selected(t testing.TB, s query.Source, f query.Filter) (out []record.Record) {
	t.Helper()
	if err := s.Select(t.Context(), f, func(r record.Record) error { out = append(out, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

func asked(t testing.TB, s query.Source, f query.Filter) (out []inputs.Input) {
	t.Helper()
	if err := s.Inputs(t.Context(), f, func(x *inputs.Input) error { out = append(out, *x); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

type rowList struct{ rows [][]any }

func (r *rowList) Columns(names []string) error { r.rows = append(r.rows, nil); return nil }
func (r *rowList) Row(cells []any) error        { r.rows = append(r.rows, cells); return nil }

func rows(t testing.TB, s query.Source, statement string) [][]any {
	t.Helper()
	var list rowList
	if err := s.SQL(t.Context(), statement, &list); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return list.rows
}

// questions are asked of both.
var questions = []query.Filter{
	{}, {Verdict: record.Denied}, {Since: now.Add(-20 * time.Hour)}, {Since: now.Add(-30 * time.Hour), Until: now.Add(-5 * time.Hour)}, {Until: now.AddDate(-1, 0, 0)},
	{Host: "*.evil.test"}, {Host: "'; drop*"}, {From: query.Workload{Namespace: "shop", Name: "cart*"}}, {Rule: query.Rule{Namespace: "shop", Policy: "l*"}}, {WouldDeny: true}, {Limit: 7},
}

// same asks a lake and the store that filled it the same questions.
func (l *lab) same(t *testing.T, p place.Place) {
	t.Helper()
	lake, live := l.source(t, p), query.Over(l.store.DB())
	for _, f := range questions {
		if diff := cmp.Diff(selected(t, live, f), selected(t, lake, f)); diff != "" {
			t.Errorf("%+v: live and lake differ: %s", f, diff)
		}
		if f.Limit > 0 || f.WouldDeny || f.Rule != (query.Rule{}) {
			continue
		}
		byQuestion := func(a, b inputs.Input) int { return strings.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b)) }
		a, b := asked(t, live, f), asked(t, lake, f)
		slices.SortFunc(a, byQuestion)
		slices.SortFunc(b, byQuestion)
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%+v: %d inputs of the store, %d of the lake: %s", f, len(a), len(b), cmp.Diff(a, b))
		}
	}
	for _, statement := range []string{
		"SELECT host, count(*) AS n, sum(bytes_received) FROM records GROUP BY host ORDER BY n DESC, host",
		"SELECT count(*), min(ingested), max(ingested), count(DISTINCT (proxy, epoch, seq)) FROM records",
		"SELECT * EXCLUDE (ingested) FROM (SELECT " + store.Columns() + ", ingested FROM records) ORDER BY proxy, epoch, seq",
	} {
		if diff := cmp.Diff(rows(t, live, statement), rows(t, lake, statement)); diff != "" {
			t.Errorf("%s: %s", statement, diff)
		}
	}
}

// TestSameAnswers: what was brought to a lake gives the same answers as the store, before files are compacted and after.
func TestSameAnswers(t *testing.T) {
	l := newLab(t)
	p := l.place(t)
	w := l.writer(t, p)
	for i := range uint64(5) {
		l.add(t, random(i, 100))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(selected(t, query.Over(l.store.DB()), query.Filter{}), selected(t, l.source(t, p), query.Filter{})); diff != "" {
		t.Error(diff)
	}
	l.add(t, random(100, 900)) // more than one file's
	for range 4 {
		l.add(t, random(uint64(l.clock().UnixNano()), 100))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compacted := false
	for _, f := range w.contents.Files {
		compacted = compacted || strings.HasPrefix(f.Name, "region=eu/cluster=one/day=2027-01-19/") && f.Records > 300
	}
	if !compacted {
		t.Error("nothing was compacted")
	}
	l.same(t, p)
	l.onlyWhatCounts(t, p)
}

// onlyWhatCounts: the files that there are are those of the log, so that engines that list folders read the same.
func (l *lab) onlyWhatCounts(t *testing.T, p place.Place) {
	t.Helper()
	logs, err := content.ReadAll(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, c := range logs {
		for _, f := range c.Files {
			want = append(want, f.Name)
		}
	}
	slices.Sort(want)
	there, err := p.List(t.Context(), "region=")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, there); diff != "" {
		t.Errorf("the log's files, and those that there are: %s", diff)
	}
}

// failing is a place that fails at chosen calls: before it has done what it was asked, or after.
type failing struct {
	place.Place
	next func() (before, after bool)
}

var errBroken = errors.New("broken")

func (f *failing) try(do func() error) error {
	before, after := f.next()
	if before {
		return errBroken
	}
	if err := do(); err != nil {
		return err
	}
	if after {
		return errBroken
	}
	return nil
}

func (f *failing) Put(ctx context.Context, name, file string) error {
	return f.try(func() error { return f.Place.Put(ctx, name, file) })
}

func (f *failing) Write(ctx context.Context, name string, data []byte, once bool) error {
	return f.try(func() error { return f.Place.Write(ctx, name, data, once) })
}

func (f *failing) Delete(ctx context.Context, names []string) error {
	return f.try(func() error { return f.Place.Delete(ctx, names) })
}

func (f *failing) Get(ctx context.Context, name, file string) error {
	return f.try(func() error { return f.Place.Get(ctx, name, file) })
}

// TestFailures: whichever call fails, and whether or not it did what it was asked, in the end each record is there once.
func TestFailures(t *testing.T) {
	l := newLab(t)
	r := rand.New(rand.NewPCG(3, 4))
	p := &failing{l.place(t), func() (bool, bool) { return r.IntN(5) == 0, r.IntN(5) == 0 }}
	w := l.writer(t, p)
	failures := 0
	for i := range uint64(8) {
		l.add(t, random(i, 40))
		for w.Pass(t.Context()) != nil {
			if failures++; failures%3 == 0 {
				w = l.writer(t, p) // as a process that starts
			}
		}
	}
	if failures < 4 || w.status.Failing != "" || w.status.Waiting != 0 {
		t.Errorf("%d failures, %+v", failures, w.status)
	}
	l.same(t, l.place(t))
	l.onlyWhatCounts(t, l.place(t))
}

// TestActions: what people did names them, says it in words, and is the record that it was.
func TestActions(t *testing.T) {
	word := record.Record{
		Proxy: "audit", Epoch: 1, Seq: 1, Time: now, Class: record.Action, Actor: "oidc:ann", ActorBy: record.ByIssuer, Action: "approved", Reason: "asked for", Reporter: record.ReporterConsole,
		URLPath: "/review", Host: "a.test", Port: 443, Workload: record.Workload{Namespace: "shop", ServiceAccount: "cart"},
	}
	nobody := record.Record{Proxy: "audit", Epoch: 1, Seq: 2, Time: now.Add(time.Second), Class: record.Action, Action: "rejected", Reporter: record.ReporterConsole, URLPath: "/review"}
	s := newLab(t)
	s.add(t, []record.Record{word, nobody})
	rows, err := s.store.DB().QueryContext(t.Context(), "SELECT actor.user.name, actor.user.type_id, message, coalesce(http_request.url.hostname, ''), http_request.url.path, class_uid, api.operation || ' by ' || api.service.name FROM ("+events("true")+")")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var got []string
	for rows.Next() {
		var name, message, host, path, api string
		var kind, class int
		if err := rows.Scan(&name, &kind, &message, &host, &path, &class, &api); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s|%d|%s|%s|%s|%d|%s", name, kind, message, host, path, class, api))
	}
	want := []string{"oidc:ann|1|approved by oidc:ann; asked for||/review|6003|approved by sallyport console", "nobody logged in|0|rejected by whoever reached the page, where nobody logs in||/review|6003|rejected by sallyport console"}
	if diff := cmp.Diff(want, got); diff != "" || rows.Err() != nil {
		t.Error(diff, rows.Err())
	}
	for i, r := range []record.Record{word, nobody} {
		if _, message, _ := strings.Cut(got[i], "|"); !strings.Contains(message, r.Deed()) {
			t.Errorf("%q is not %q", got[i], r.Deed())
		}
	}
}
