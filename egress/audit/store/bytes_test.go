package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/bench/corpus"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestBytesOfARecord: what a log of a day takes on disk, with all that is made of it, and with what is free in its file. The records are the same
// ones each time, and so are their moments.
func TestBytesOfARecord(t *testing.T) {
	const (
		records = 3 * 122_880 // three of DuckDB's groups of rows
		streams = 8
		batch   = 1000
		most    = 40 // bytes
	)
	now := start2027
	dir := t.TempDir()
	s := open(t, dir, Options{Now: func() time.Time { return now }})
	var sources [streams]*corpus.Source
	var sent [streams]uint64
	for i := range sources {
		sources[i] = corpus.New(uint64(i + 1))
	}
	made := make([]record.Record, batch)
	for n := 0; n < records; n += batch {
		k := n / batch % streams
		for i := range made {
			sent[k]++
			made[i] = sources[k].Record(start2027.Add(time.Duration(sent[k]) * 24 * time.Hour * streams / records))
			made[i].Proxy, made[i].Epoch, made[i].Seq = fmt.Sprintf("router~10.0.0.%d~gateway-%d.istio-system~istio-system.svc.cluster.local", k, k), uint64(start2027.UnixNano()), sent[k]
		}
		put(t, s, made...)
		now = now.Add(24 * time.Hour * batch / records)
	}
	gatherNow(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	if bytes := float64(info.Size()) / records; bytes > most {
		t.Errorf("a record takes %.1f bytes, want %d at most", bytes, most)
	} else {
		t.Logf("a record takes %.1f bytes", bytes)
	}
	if keep := os.Getenv("KEEPDIR"); keep != "" {
		_ = os.MkdirAll(filepath.Join(keep, "audit"), 0o700)
		b, err := os.ReadFile(filepath.Join(dir, FileName))
		if err := errors.Join(err, os.WriteFile(filepath.Join(keep, "audit", FileName), b, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}
