package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		appendUntilKilled(dir)
		return
	}
	leaks.Verify(m)
}

func open(t testing.TB, dir string, l Limits) *Spool {
	t.Helper()
	if l.BootID == nil {
		l.BootID = func() string { return "boot-1" }
	}
	s, err := Open(dir, l)
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

func rec(i int) record.Record {
	return record.Record{Proxy: "p", Time: time.Unix(int64(i), 0).UTC(), Class: record.HTTP, Verdict: record.Denied,
		Host: fmt.Sprintf("h%d.example.com", i), Port: 443}
}

func appendN(t testing.TB, s *Spool, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := s.Append(rec(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// drain reads and acknowledges until everything appended so far is gone.
func drain(t testing.TB, s *Spool) (all []record.Record) {
	t.Helper()
	for st := s.Stats(); st.AckedSeq < st.LastSeq; st = s.Stats() {
		batch, err := s.Next(context.Background(), 100)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, unpack(t, batch)...)
		if err := s.Ack(batch.Last); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// unpack are a batch's records.
func unpack(t testing.TB, b Batch) (out []record.Record) {
	t.Helper()
	f := protobuf.Scan(string(b.Body))
	for f.Next() {
		out = append(out, record.Record{})
		if err := protobuf.ReadRecord(f.Text, &out[len(out)-1]); err != nil {
			t.Fatal(err)
		}
	}
	if f.Err() != nil || len(out) != b.Count || b.Count > 0 && out[b.Count-1].Seq != b.Last {
		t.Fatalf("%d records, the last one %d, in a batch that says %d and %d, %v", len(out), out[len(out)-1].Seq, b.Count, b.Last, f.Err())
	}
	return out
}

// next is Next's batch.
func next(t testing.TB, s *Spool, limit int) []record.Record {
	t.Helper()
	batch, err := s.Next(context.Background(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, batch)
}

func hosts(records []record.Record) (out []string) {
	for _, r := range records {
		if r.Class != record.Gap {
			out = append(out, r.Host)
		}
	}
	return out
}

func TestNextRepeatsUntilAcked(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	appendN(t, s, 0, 10)
	for range 2 {
		if batch := next(t, s, 4); len(batch) != 4 || batch[0].Seq != 1 || batch[3].Seq != 4 {
			t.Fatalf("batch %v", batch)
		}
	}
	if err := s.Ack(4); err != nil {
		t.Fatal(err)
	}
	batch := next(t, s, 100)
	if len(batch) != 6 || batch[0].Seq != 5 || batch[0].Host != "h4.example.com" || batch[0].Epoch == 0 {
		t.Fatalf("after the acknowledgement: %+v", batch)
	}
	if err := s.Ack(11); err == nil {
		t.Error("a number that was never given out was acknowledged")
	}
}

func TestNextWaits(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(dir, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan Batch)
		go func() {
			batch, _ := s.Next(t.Context(), 10)
			got <- batch
		}()
		synctest.Wait()
		appendN(t, s, 0, 1)
		if batch := <-got; batch.Count != 1 {
			t.Errorf("woke with %d records", batch.Count)
		}
		if err := s.Ack(1); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Next(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled Next: %v", err)
		}
		failed := make(chan error)
		go func() {
			_, err := s.Next(context.Background(), 1)
			failed <- err
		}()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-failed; !errors.Is(err, ErrClosed) {
			t.Errorf("Next of a closed spool: %v", err)
		}
	})
}

func TestDrain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(dir, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Drain(t.Context()); err != nil {
			t.Errorf("empty spool: %v", err)
		}
		appendN(t, s, 0, 3)
		drained := make(chan error)
		go func() { drained <- s.Drain(t.Context()) }()
		for seq := range uint64(3) {
			synctest.Wait()
			select {
			case <-drained:
				t.Fatalf("drained after %d of 3", seq)
			default:
			}
			if err := s.Ack(seq + 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		appendN(t, s, 3, 4)
		go func() { drained <- s.Drain(t.Context()) }()
		synctest.Wait()
		s.Close()
		if err := <-drained; !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestReopenGoesOn(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendN(t, s, 0, 5)
	epoch := s.Stats().Epoch
	if err := s.Ack(2); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Limits{}); err == nil {
		t.Fatal("two processes may have the folder")
	}
	s.Close()

	s = open(t, dir, Limits{})
	appendN(t, s, 5, 6)
	got := drain(t, s)
	if len(got) != 4 || got[0].Seq != 3 || got[3].Seq != 6 || got[3].Epoch != epoch {
		t.Fatalf("%+v", got)
	}
	s.Close()

	s = open(t, dir, Limits{BootID: func() string { return "boot-2" }})
	appendN(t, s, 6, 7)
	if got := drain(t, s); got[0].Seq != 7 || got[0].Epoch <= epoch {
		t.Fatalf("after a reboot: %+v, the old epoch is %d", got, epoch)
	}
}

func TestNumbersStayAheadOfTheAcknowledgement(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendN(t, s, 0, 5)
	drain(t, s)
	s.Close()
	if err := os.Truncate(segmentPath(dir, 1), 0); err != nil { // as a power loss may leave it
		t.Fatal(err)
	}
	s = open(t, dir, Limits{})
	appendN(t, s, 5, 6)
	if got := drain(t, s); len(got) != 1 || got[0].Seq != 6 {
		t.Fatalf("%+v", got)
	}
}

func TestOverflowLeavesGaps(t *testing.T) {
	s := open(t, t.TempDir(), Limits{MaxBytes: MinMaxBytes, Origin: record.Record{Proxy: "me"}})
	const n = 5000
	appendN(t, s, 0, n)
	if st := s.Stats(); st.Bytes > MinMaxBytes+4096 || st.Overflowed == 0 {
		t.Fatalf("%+v", st)
	}
	var lost, kept uint64
	for _, r := range drain(t, s) {
		if r.Class == record.Gap {
			lost += r.Count
			if r.Proxy != "me" || r.Reason == "" || r.Seq == 0 {
				t.Errorf("gap record %+v", r)
			}
			continue
		}
		kept++
	}
	if lost+kept != n || lost == 0 {
		t.Errorf("%d lost + %d kept, want %d", lost, kept, n)
	}
}

// A batch that is being shipped while the spool overflows is neither shipped and counted as lost, nor neither.
func TestOverflowSparesWhatIsBeingShipped(t *testing.T) {
	s := open(t, t.TempDir(), Limits{MaxBytes: MinMaxBytes})
	appendN(t, s, 0, 10)
	held := next(t, s, 10)
	appendN(t, s, 10, 3000)
	if err := s.Ack(held[9].Seq); err != nil {
		t.Fatal(err)
	}
	kept, lost := uint64(len(held)), uint64(0)
	for _, r := range drain(t, s) {
		if r.Class == record.Gap {
			lost += r.Count
		} else {
			kept++
		}
	}
	if kept+lost != 3000 {
		t.Errorf("%d kept + %d lost, want 3000", kept, lost)
	}
}

func TestBrokenFiles(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(data []byte) []byte
		kept  int // records before the damage
	}{
		{"torn frame", func(b []byte) []byte { return b[:len(b)-3] }, 9},
		{"torn header", func(b []byte) []byte { return append(b, 1, 2, 3) }, 10},
		{"zeros, as some file systems leave", func(b []byte) []byte { return append(b, make([]byte, 512)...) }, 10},
		{"flipped bit", func(b []byte) []byte { b[frameHeader+5] ^= 1; return b }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, Limits{})
			appendN(t, s, 0, 10)
			s.Close()
			path := segmentPath(dir, 1)
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, tt.spoil(data), 0o600); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, Limits{})
			told := drain(t, s) // before anything else happens
			appendN(t, s, 10, 11)
			got := append(told, drain(t, s)...)
			want := []string{"h10.example.com"}
			for i := range tt.kept {
				want = slices.Insert(want, i, fmt.Sprintf("h%d.example.com", i))
			}
			if !slices.Equal(hosts(got), want) {
				t.Errorf("hosts %v, want %v", hosts(got), want)
			}
			gaps := slices.DeleteFunc(slices.Clone(got), func(r record.Record) bool { return r.Class != record.Gap })
			if len(gaps) != 1 || gaps[0].Count < 1 || gaps[0].Seq <= 10 {
				t.Errorf("gaps %+v", gaps)
			}
		})
	}
}

func TestSegmentThatVanishesIsAGap(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendN(t, s, 0, 10)
	if err := os.Remove(segmentPath(dir, 1)); err != nil {
		t.Fatal(err)
	}
	got := drain(t, s)
	if len(got) != 1 || got[0].Class != record.Gap || got[0].Count != 10 {
		t.Errorf("%+v", got)
	}
}

func TestFailedWriteIsAGapLater(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	good := s.active
	broken, err := os.Open(filepath.Join(s.dir, "lock")) // not open for writing
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	s.active = broken
	for i := range 3 {
		if err := s.Append(rec(i)); err == nil {
			t.Fatal("the write cannot have worked")
		}
	}
	s.active = good
	appendN(t, s, 3, 4)
	got := drain(t, s)
	if len(got) != 2 || got[0].Class != record.Gap || got[0].Count != 3 || got[1].Host != "h3.example.com" {
		t.Errorf("%+v", got)
	}
}

func TestAppendGap(t *testing.T) {
	s := open(t, t.TempDir(), Limits{})
	if err := s.AppendGap(7, "the access log stream was cut"); err != nil {
		t.Fatal(err)
	}
	got := drain(t, s)
	if len(got) != 1 || got[0].Count != 7 || got[0].Reason != "the access log stream was cut" {
		t.Errorf("%+v", got)
	}
}

func TestManyWritersOneReader(t *testing.T) {
	s := open(t, t.TempDir(), Limits{SegmentBytes: 16 << 10, SyncInterval: time.Millisecond})
	const writers, each = 4, 1000
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := s.Append(rec(w*each + i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	want := uint64(1)
	for want <= writers*each {
		for _, r := range next(t, s, 64) {
			if r.Seq != want {
				t.Fatalf("number %d, want %d", r.Seq, want)
			}
			want++
		}
		if err := s.Ack(want - 1); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	if st := s.Stats(); st.Bytes > 32<<10 {
		t.Errorf("acknowledged segments stay: %+v", st)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	for _, l := range []Limits{{MaxBytes: 1}, {SegmentBytes: 1 << 40}, {SegmentBytes: -1}} {
		if _, err := Open(t.TempDir(), l); err == nil {
			t.Errorf("%+v was accepted", l)
		}
	}
}
