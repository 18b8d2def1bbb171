package lake

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/lake/content"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
)

var update = flag.Bool("update", false, "write content/columns.txt anew")

// TestColumns: the list of columns that others read is what is written, and has no type that they do not know.
func TestColumns(t *testing.T) {
	rows, err := newLab(t).store.DB().QueryContext(t.Context(), "SELECT column_name, column_type FROM (DESCRIBE "+events("true")+")")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var now strings.Builder
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			t.Fatal(err)
		}
		now.WriteString(name + " " + kind + "\n")
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	const file = "content/columns.txt"
	if *update {
		if err := os.WriteFile(file, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(file)
	if diff := cmp.Diff(string(written), now.String()); err != nil || diff != "" {
		t.Errorf("%v: go test ./egress/audit/lake -run TestColumns -update: %s", err, diff)
	}
	var check func(list []content.Column, names ...string)
	check = func(list []content.Column, names ...string) {
		for _, c := range list {
			known := map[string]bool{"INTEGER": true, "BIGINT": true, "VARCHAR": true, "BOOLEAN": true, "TIMESTAMP WITH TIME ZONE": true}
			if len(c.Fields) == 0 && !known[c.Type] {
				t.Errorf("%s.%s is a %q", strings.Join(names, "."), c.Name, c.Type)
			}
			check(c.Fields, append(names, c.Name)...)
		}
	}
	check(content.Columns())
	if n := strings.Count(now.String(), "\n"); len(content.Columns()) != n {
		t.Errorf("%d columns of %d", len(content.Columns()), n)
	}
}

// TestLargeNumbers: numbers that engines do not know are the largest that they do.
func TestLargeNumbers(t *testing.T) {
	l := newLab(t)
	l.add(t, []record.Record{{Proxy: "p", Epoch: 1, Seq: 1, Time: now, Class: record.HTTP, Port: math.MaxUint32, BytesSent: math.MaxUint64, BytesReceived: math.MaxInt64, Status: math.MaxInt32 + 1}})
	p := l.place(t)
	if err := l.writer(t, p).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range selected(t, l.source(t, p), query.Filter{}) {
		if r.Port != math.MaxInt32 || r.BytesSent != math.MaxInt64 || r.BytesReceived != math.MaxInt64 || r.Status != math.MaxInt32 {
			t.Errorf("%d %d %d %d", r.Port, r.BytesSent, r.BytesReceived, r.Status)
		}
	}
}

// TestReplacedStay: files that became part of others stay as long as they are kept, over restarts and checkpoints, and go then.
func TestReplacedStay(t *testing.T) {
	l := newLab(t)
	p := l.place(t)
	at := now
	l.clock = func() time.Time { at = at.Add(time.Millisecond); return at }
	w := l.writer(t, p)
	w.Keep = time.Hour
	compacted := func(w *Writer) (there, counted int) {
		names, err := p.List(t.Context(), "region=")
		if err != nil {
			t.Fatal(err)
		}
		return len(names), len(w.contents.Files)
	}
	for i := range uint64(70) {
		l.add(t, random(i, 5))
		if err := w.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	there, counted := compacted(w)
	if there-counted < 2*compactFrom || len(w.contents.Replaced) != there-counted {
		t.Fatalf("%d files, of which %d count; %d replaced", there, counted, len(w.contents.Replaced))
	}
	l.same(t, p)
	w = l.writer(t, p)
	w.Keep = time.Hour
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, _ := compacted(w); again != there {
		t.Errorf("%d files after a restart, not %d", again, there)
	}
	at = at.Add(time.Hour)
	if err := w.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.onlyWhatCounts(t, p)
}
