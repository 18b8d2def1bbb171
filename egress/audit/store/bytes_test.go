package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/egress/audit/bench/corpus"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestBytesOfARecord: what a log of a day takes on disk, with all that is made of it. The records are the same ones each time, and so are their
// moments. Counted are blocks that are in use, by table: how many of the file's others are free is chance.
func TestBytesOfARecord(t *testing.T) {
	const (
		records = 122_880 // one of DuckDB's groups of rows
		streams = 8
		batch   = 960
	)
	hand := clock.At(start2027)
	dir := t.TempDir()
	s := open(t, dir, Options{Now: hand.Now})
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
			made[i] = sources[k].Record(start2027.Add(-time.Duration(sent[k]) * 24 * time.Hour * streams / records))
			made[i].Proxy, made[i].Epoch, made[i].Seq = fmt.Sprintf("router~10.0.0.%d~gateway-%d.istio-system~istio-system.svc.cluster.local", k, k), uint64(start2027.UnixNano()), sent[k]
		}
		put(t, s, made...)
		hand.Advance(50 * time.Millisecond)
	}
	gatherNow(t, s)
	for table, most := range map[string]int{RowsTable: 18, InputsTable: 16, InputKinds: 3, rollupRows: 11, rollupKinds: 3, SightingsTable: 4} {
		if _, err := s.DB().Exec("CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		var blocks, size int
		err := s.DB().QueryRow("SELECT (SELECT count(DISTINCT block_id) FROM pragma_storage_info('"+table+"') WHERE block_id >= 0), block_size FROM pragma_database_size()").Scan(&blocks, &size)
		if err != nil {
			t.Fatal(err)
		}
		if bytes := float64(blocks*size) / records; bytes > float64(most) || bytes == 0 {
			t.Errorf("%s takes %.1f bytes for a record, want %d at most", table, bytes, most)
		} else {
			t.Logf("%s takes %.1f bytes for a record", table, bytes)
		}
	}
}
