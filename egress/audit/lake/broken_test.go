package lake

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestBrokenFiles: where a file of the lake is cut short, or gone, a question that needs it is not answered, and says which it is and how many records are in it; others are
// answered, what comes in is brought, and other days' files are compacted.
func TestBrokenFiles(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, file string){
		"has 7 bytes":  func(t *testing.T, file string) { t.Helper(); change(t, os.Truncate(file, 7)) },
		"has 0 bytes":  func(t *testing.T, file string) { t.Helper(); change(t, os.Truncate(file, 0)) },
		"is not there": func(t *testing.T, file string) { t.Helper(); change(t, os.Remove(file)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			w := l.writer(t, l.place(t))
			day := func(seed uint64, days int) {
				records := random(seed, 300)
				for i := range records {
					records[i].Time = now.AddDate(0, 0, -days).Add(-time.Duration(i) * time.Second)
				}
				l.add(t, records)
				if err := w.Pass(t.Context()); err != nil && !strings.Contains(err.Error(), name) {
					t.Fatal(err)
				}
			}
			day(1, 5)
			day(2, 2)
			harmed := fileOf(t, l.place(t), now.AddDate(0, 0, -5))
			harm(t, filepath.Join(l.lake, filepath.FromSlash(harmed.Name)))
			s := l.source(t, l.place(t))
			ask := func(days int) (n int, err error) {
				at := now.AddDate(0, 0, -days)
				err = s.Select(t.Context(), query.Filter{Since: at.Add(-time.Hour), Until: at.Add(time.Second)}, func(record.Record) error { n++; return nil })
				return n, err
			}
			if n, err := ask(2); err != nil || n != 300 {
				t.Errorf("another day: %d records, %v", n, err)
			}
			n, err := ask(5)
			if err == nil || n != 0 || !strings.Contains(err.Error(), harmed.Name) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "300 records") {
				t.Errorf("%d records, %v", n, err)
			}
			for seed := range uint64(12) { // enough to be compacted
				day(seed+3, 1+int(seed)%2*4)
			}
			if n, err := ask(1); err != nil || n != 1800 {
				t.Errorf("what came later: %d records, %v", n, err)
			}
		})
	}
}

func change(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fileOf is a file of the lake that has records of a moment.
func fileOf(t *testing.T, p place.Place, at time.Time) content.File {
	t.Helper()
	logs, err := content.ReadAll(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range logs {
		for _, f := range c.Files {
			if !at.Before(f.First) && !at.After(f.Last) {
				return f
			}
		}
	}
	t.Fatalf("no file has %v", at)
	return content.File{}
}
