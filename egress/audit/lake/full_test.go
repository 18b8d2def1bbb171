package lake

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/query"
)

// fill leaves no room on a disk, and gives what makes room again.
func fill(t *testing.T, disk string) (room func()) {
	t.Helper()
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: where the disk is full on which files are made, or that of the lake, records wait in the store; with room again each of those that the
// store took is in the lake once.
func TestFullDisk(t *testing.T) {
	for name, where := range map[string]func(l *lab, disk string){
		"the server's": func(l *lab, disk string) { l.dir = disk },
		"the lake's":   func(l *lab, disk string) { l.lake = filepath.Join(disk, "lake") },
	} {
		t.Run(name, func(t *testing.T) {
			l, disk := &lab{dir: t.TempDir(), lake: filepath.Join(t.TempDir(), "lake"), clock: clock()}, world.SmallDisk(t, "size=64m")
			where(l, disk)
			l.open(t)
			t.Cleanup(func() { _ = l.store.Close() })
			p := l.place(t)
			w := l.writer(t, p)
			l.add(t, random(1, 300))
			if err := w.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.add(t, random(2, 900))
			room := fill(t, disk)
			refused := l.store.Store(t.Context(), random(3, 5000)) // may be taken or not: who hands it in is told
			if w.Pass(t.Context()) == nil {
				t.Error("a file was written to a full disk")
			}
			if w.status.Waiting < 900 || w.status.Failing == "" {
				t.Errorf("nothing waits: %+v", w.status)
			}
			room()
			l.add(t, random(4, 50))
			if refused != nil {
				l.add(t, random(3, 5000)) // again, as agents do
			}
			w = l.writer(t, p) // as a process that starts
			if err := w.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := len(selected(t, l.source(t, p), query.Filter{})); n != 300+900+5000+50 {
				t.Errorf("%d records", n)
			}
			l.same(t, p)
			l.onlyWhatCounts(t, p)
		})
	}
}
