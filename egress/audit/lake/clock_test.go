package lake

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestClockThatJumps: while the server's clock is set forth and back by an hour, and the server begins anew, each record is stored, and brought to the lake once.
func TestClockThatJumps(t *testing.T) {
	var ahead atomic.Int64
	usual := clock()
	l := &lab{dir: t.TempDir(), lake: filepath.Join(t.TempDir(), "lake"), clock: func() time.Time { return usual().Add(time.Duration(ahead.Load())) }}
	l.open(t)
	t.Cleanup(func() { _ = l.store.Close() })
	w := l.writer(t, l.place(t))
	for i, jump := range []time.Duration{0, time.Hour, 0, -time.Hour, 2 * time.Hour, -time.Hour, 0} {
		ahead.Store(int64(jump))
		l.add(t, random(uint64(i+1), 60))
		if i == 4 {
			if err := l.store.Close(); err != nil {
				t.Fatal(err)
			}
			ahead.Store(int64(-time.Hour))
			l.open(t)
			w = l.writer(t, l.place(t))
		}
		if err := w.Pass(t.Context()); err != nil {
			t.Fatalf("at %v: %v", jump, err)
		}
		if w.status.Waiting != 0 {
			t.Errorf("at %v: %d records wait", jump, w.status.Waiting)
		}
	}
	l.same(t, l.place(t))
	l.onlyWhatCounts(t, l.place(t))
}
