package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		storeUntilKilled(dir)
		return
	}
	if dir := os.Getenv(childMigrates); dir != "" {
		migrateUntilKilled(dir)
		return
	}
	leaks.Verify(m)
}

var start2027 = time.Date(2027, 1, 2, 3, 4, 5, 6000, time.UTC)

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), dir, o)
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

func rec(seq uint64) record.Record {
	return record.Record{Proxy: "sidecar~10.0.0.1~a.b~b", Epoch: 7, Seq: seq, Class: record.HTTP, Verdict: record.Allowed,
		Time: start2027.Add(time.Duration(seq) * time.Second), Host: fmt.Sprintf("h%d.test", seq), Port: 443}
}

func recs(from, to uint64) (out []record.Record) {
	for seq := from; seq <= to; seq++ {
		out = append(out, rec(seq))
	}
	return out
}

func put(t testing.TB, s *Store, records ...record.Record) {
	t.Helper()
	if err := s.Store(context.Background(), records); err != nil {
		t.Fatal(err)
	}
}

func count(t testing.TB, db *sql.DB) (n, distinct int) {
	t.Helper()
	err := db.QueryRow("SELECT count(*), count(DISTINCT (proxy, epoch, seq)) FROM records").Scan(&n, &distinct)
	if err != nil {
		t.Fatal(err)
	}
	return n, distinct
}

func wantRows(t testing.TB, s *Store, want int) {
	t.Helper()
	if n, distinct := count(t, s.DB()); n != want || distinct != want {
		t.Errorf("%d rows, %d different ones, want %d", n, distinct, want)
	}
}

func all(t *testing.T, db *sql.DB) (out []record.Record) {
	t.Helper()
	rows, err := db.Query("SELECT " + Columns() + " FROM records ORDER BY seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := ScanRecord(rows)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func TestEveryFieldComesBack(t *testing.T) {
	full := wholeRecord(1<<63 + 1)
	full.Proxy, full.Epoch = "router~10.0.0.2~gw.istio-system~istio-system.svc.cluster.local", 1<<63+5
	full.URLPath, full.BytesSent = "/a?b=c'\"\\", 1<<62
	s := open(t, t.TempDir(), Options{})
	put(t, s, full)
	if diff := cmp.Diff([]record.Record{full}, all(t, s.DB())); diff != "" {
		t.Error(diff)
	}
}

func TestTextThatIsNotUTF8(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	bad := rec(1)
	bad.Host, bad.URLPath = "a\xff\xfeb", "nul\x00byte"
	put(t, s, bad, rec(2))
	if got := all(t, s.DB()); len(got) != 2 || got[0].Host != "a\uFFFDb" || got[0].URLPath != "nul\uFFFDbyte" {
		t.Errorf("%+v", got)
	}
}

func TestCopiesAreDropped(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	put(t, s, recs(1, 10)...)
	put(t, s, recs(1, 10)...)
	put(t, s, recs(21, 30)...)                 // a later batch first
	put(t, s, append(recs(8, 22), rec(15))...) // then the hole, overlapping on both sides, and one twice
	other := rec(5)
	other.Proxy = "another"
	again := rec(5)
	again.Epoch = 8
	put(t, s, other, again)
	wantRows(t, s, 32)
	if st := s.Stats(); st.Stored != 32 || st.Copies != 10+3+2+1 {
		t.Errorf("%+v", st)
	}
	s.Close()

	s = open(t, dir, Options{})
	put(t, s, recs(1, 31)...)
	wantRows(t, s, 33)
}

func TestManyAtOnce(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for b := range uint64(20) {
				batch := recs(b*50+1, b*50+50)
				for i := range batch {
					batch[i].Proxy = fmt.Sprint("proxy-", w/2) // two streams send the same
				}
				if err := s.Store(context.Background(), batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantRows(t, s, 4*1000)
}

func TestFollow(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	f, slow := s.Follow(4), s.Follow(1)
	defer f.Close()
	put(t, s, recs(1, 3)...)
	put(t, s, recs(2, 4)...)
	if a, b := <-f.C, <-f.C; len(a) != 3 || len(b) != 1 || b[0].Seq != 4 {
		t.Errorf("%v, %v", a, b)
	}
	if got := slow.Missed(); got != 1 {
		t.Errorf("%d missed", got)
	}
	slow.Close()
	s.Close()
	if _, open := <-f.C; open {
		t.Error("the channel outlives the store")
	}
}

func TestClosedStore(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	s.Close()
	if err := s.Store(context.Background(), recs(1, 1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestGivenUpBeforeItIsDone: what the writer finds out for somebody who gave up in the meantime is not written where that one reads. (What it
// holds by is the race detector.)
func TestGivenUpBeforeItIsDone(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	for name, ask := range map[string]func(context.Context) error{
		"Seal":     func(ctx context.Context) error { _, err := s.Seal(ctx, time.Time{}); return err },
		"Identity": func(ctx context.Context) error { _, err := s.Identity(ctx); return err },
		"Prune":    func(ctx context.Context) error { _, err := s.Prune(ctx, time.Now().Add(-time.Hour)); return err },
	} {
		gaveUp := 0
		for range 20 {
			ctx, giveUp := context.WithCancel(t.Context())
			busy, goOn := make(chan struct{}), make(chan struct{})
			go func() { // the two go on with nothing between them
				<-busy
				giveUp()
				close(goOn)
			}()
			go func() {
				_ = s.hand(t.Context(), request{work: func(context.Context) error { close(busy); <-goOn; return nil }})
			}()
			<-busy
			if err := ask(ctx); errors.Is(err, context.Canceled) {
				gaveUp++
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, err := s.Seal(t.Context(), time.Time{}); err != nil { // the writer is through
				t.Fatal(err)
			}
		}
		t.Logf("%s: gave up %d times of 20", name, gaveUp)
	}
}

func TestRetention(t *testing.T) {
	dir := t.TempDir()
	hand := clock.At(start2027)
	o := Options{Now: hand.Now}
	s := open(t, dir, o)
	put(t, s, recs(1, 10)...)
	hand.Advance(time.Hour)
	n, err := s.Prune(t.Context(), start2027.Add(5500*time.Millisecond))
	if err != nil || n != 5 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	put(t, s, recs(1, 10)...) // what was deleted does not come back
	wantRows(t, s, 5)
	s.Close()

	o.Retention = time.Hour
	hand.Advance(24 * time.Hour)
	s = open(t, dir, o)
	put(t, s, rec(11)) // is behind the maintenance at the start
	wantRows(t, s, 1)
	late := rec(12)
	late.Time = start2027.Add(-24 * 365 * time.Hour) // a clock that is wrong
	put(t, s, late)
	if n, err := s.Prune(t.Context(), start2027); err != nil || n != 0 {
		t.Errorf("%d deleted, %v", n, err)
	}
}

func TestSpoolsTableStaysShort(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	for i := range uint64(50) {
		put(t, s, rec(i+1))
	}
	s.Close()
	s = open(t, dir, Options{})
	put(t, s, recs(1, 51)...)
	wantRows(t, s, 51)
	var n int
	if err := s.DB().QueryRow("SELECT count(*) FROM spools").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestSecondWriterIsRefusedReadOnlyToo(t *testing.T) {
	if _, err := OpenReadOnly(t.Context(), t.TempDir(), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no store: %v", err)
	}
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "what?ever"), Options{}); err == nil {
		t.Error("a path that the driver misreads was taken")
	}
}

func TestParquet(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's.parquet")
	w, err := NewParquetWriter(t.Context(), file, UsualMemory)
	if err != nil {
		t.Fatal(err)
	}
	// In an order that has nothing to do with their numbers: the log is read by time.
	records := recs(1, 1000)
	rand.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	for batch := range slices.Chunk(records, 300) {
		if err := w.Write(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.Finish(t.Context()); err != nil || n != 1000 {
		t.Fatalf("%d, %v", n, err)
	}
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	var host string
	if err := db.QueryRow("SELECT count(*), max_by(host, time) FROM read_parquet(?)", file).Scan(&n, &host); err != nil ||
		n != 1000 || host != "h1000.test" {
		t.Errorf("%d rows, last host %q, %v", n, host, err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	if _, err := NewParquetWriter(t.Context(), file, UsualMemory); err == nil {
		t.Error("an existing file was taken")
	}
}

// TestCheckpointsAreRare: DuckDB's own setting costs twice the processor time.
func TestCheckpointsAreRare(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	var threshold string
	if err := s.DB().QueryRow("SELECT current_setting('checkpoint_threshold')").Scan(&threshold); err != nil || threshold != "61.0 MiB" {
		t.Errorf("checkpoints after %s, %v", threshold, err)
	}
}
