package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestFullDisk: while the disk is full who hands records in is told, each time; what was acknowledged before is there, and can be read meanwhile; and with room again, in the
// same process or after it began anew, each is stored once.
func TestFullDisk(t *testing.T) {
	disk := world.SmallDisk(t, "size=100m")
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 76<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, at := filepath.Join(disk, "audit"), time.Date(2027, 1, 20, 12, 0, 0, 0, time.UTC)
	open := func() *Store {
		t.Helper()
		s, err := Open(t.Context(), dir, Options{Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	t.Cleanup(func() { _ = s.Close() })
	batch := func(first uint64) (out []record.Record) {
		for i := range uint64(500) {
			out = append(out, record.Record{Proxy: "p", Epoch: 1, Seq: first + i, Time: at, Class: record.HTTP, Verdict: record.Allowed, Host: text(first+i, 200), URLPath: "/" + text(first*7+i, 400)})
		}
		return out
	}
	count := func() (n uint64) {
		t.Helper()
		if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM "+Table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	acknowledged, refused := uint64(0), 0
	for refused < 5 { // as somebody who tries again
		if err := s.Store(t.Context(), batch(acknowledged+1)); err == nil {
			acknowledged += 500
		} else if refused++; refused == 1 {
			t.Logf("%d are stored, then: %v", acknowledged, err)
		}
		select {
		case <-s.Failed():
			t.Log("it has to be opened again")
			_ = s.Close()
			s = open()
		default:
		}
		if acknowledged > 1_000_000 {
			t.Fatal("the disk does not fill")
		}
	}
	if n := count(); n < acknowledged || n > acknowledged+500 {
		t.Errorf("%d records are there, %d are acknowledged", n, acknowledged)
	}
	_ = s.Close()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	s = open()
	for range 3 {
		if err := s.Store(t.Context(), batch(acknowledged+1)); err != nil {
			t.Fatalf("with room again: %v", err)
		}
		acknowledged += 500
	}
	if n := count(); n != acknowledged {
		t.Errorf("%d records are there, %d are acknowledged", n, acknowledged)
	}
}

// text is one that hardly repeats.
func text(seed uint64, n int) string {
	b := make([]byte, n)
	for i := range b {
		seed = seed*6364136223846793005 + 1442695040888963407
		b[i] = 'a' + byte(seed>>59)%26
	}
	return string(b)
}
