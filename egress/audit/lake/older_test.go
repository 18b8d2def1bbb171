package lake

import (
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestFilesOfBefore: files that were written when events had no api are read beside those that have it, and become one with them.
func TestFilesOfBefore(t *testing.T) {
	l := newLab(t)
	p := l.place(t)
	w := l.writer(t, p)
	whole := event
	t.Cleanup(func() { event = whole })
	event = slices.DeleteFunc(slices.Clone(whole), func(c [2]string) bool { return c[0] == "api" })
	for i := range uint64(2) {
		l.add(t, random(i, 50))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	event = whole
	l.add(t, []record.Record{{Proxy: "audit", Epoch: 1, Seq: 1, Time: now.Add(-20 * time.Minute), Class: record.Action, Action: "approved", Actor: "ann", Reporter: record.ReporterConsole}})
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.same(t, p)
	before := len(w.contents.Files)
	for i := range uint64(2 * compactFrom) {
		l.add(t, random(100+i, 20))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.contents.Files) >= before+2*compactFrom {
		t.Error("nothing was compacted")
	}
	l.same(t, p)
	l.onlyWhatCounts(t, p)
}
