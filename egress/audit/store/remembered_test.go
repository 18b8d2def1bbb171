package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// epochs are a record each of so many numberings of one proxy.
func epochs(from, to uint64) (out []record.Record) {
	for epoch := from; epoch <= to; epoch++ {
		r := rec(1)
		r.Epoch = epoch
		out = append(out, r)
	}
	return out
}

func rowsOf(t *testing.T, s *Store, table string) (n int) {
	t.Helper()
	if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestEpochsAreBounded: a proxy that gives each record another numbering makes the store remember no more of them, now or when it is opened again. All of its records are kept; those of a
// numbering that was forgotten are kept twice when they come twice.
func TestEpochsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	late := rec(1)
	late.Proxy = "sidecar~10.0.0.9~other.b~b"
	put(t, s, late)
	for from := uint64(1); from <= 1000; from += 250 {
		put(t, s, epochs(from, from+249)...)
	}
	wantRows(t, s, 1001)
	put(t, s, append(epochs(1000-maxEpochs+1, 1000), late)...) // what is remembered is known
	wantRows(t, s, 1001)
	if rows := rowsOf(t, s, "spools"); rows > 1+4*maxEpochs+1 {
		t.Errorf("the table has %d rows", rows)
	}
	s.Close()

	s = open(t, dir, Options{})
	put(t, s, append(epochs(1000-maxEpochs+1, 1000), late)...)
	wantRows(t, s, 1001)
	if rows := rowsOf(t, s, "spools"); rows != 1+maxEpochs {
		t.Errorf("the table has %d rows when it was opened", rows)
	}
	put(t, s, epochs(1, 1)...)
	if n, distinct := count(t, s.DB()); n != 1002 || distinct != 1001 {
		t.Errorf("%d rows, %d different ones, want one twice", n, distinct)
	}
}

// TestMoreThanIsRemembered: a table of a version that bounded nothing is read within bounds, what sent something last before others.
func TestMoreThanIsRemembered(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	put(t, s, recs(1, 5)...)
	if _, err := s.db.ExecContext(t.Context(), `INSERT INTO spools SELECT 'sidecar~10.0.0.2~x.b~b', n, n, '1-1', now() FROM range(1000, 51000) AS r(n)`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(t.Context(), `INSERT INTO spools SELECT 'sidecar~10.0.0.2~x' || n || '.c~c', 7, n, '1-1', now() FROM range(1000, 51000) AS r(n)`); err != nil {
		t.Fatal(err)
	}
	s.Close()

	s = open(t, dir, Options{})
	last, forgotten := rec(1), rec(1)
	last.Proxy, last.Epoch = "sidecar~10.0.0.2~x.b~b", 50999
	forgotten.Proxy = "sidecar~10.0.0.2~x1000.c~c"
	put(t, s, append(recs(1, 5), last, forgotten)...)
	if rows, want := rowsOf(t, s, "spools"), 1+maxEpochs+maxSpansOfNamespace+1; rows != want {
		t.Errorf("the table has %d rows, want %d", rows, want)
	}
	if n, _ := count(t, s.DB()); n != 6 {
		t.Errorf("%d records, want the five and one that was forgotten", n)
	}
}

func numbering(namespace string, pod int, epoch uint64) *spool {
	return &spool{spoolKey{fmt.Sprintf("sidecar~10.0.0.1~p%d.%s~%[2]s", pod, namespace), epoch}, spans{{1, 1}}, epoch, time.Unix(int64(epoch), 0)}
}

// TestForgottenOfOneNamespace: whoever names pods that there are not makes his own namespace's forgotten, the silent ones first, and nobody else's.
func TestForgottenOfOneNamespace(t *testing.T) {
	m := newRemembered()
	other, own, silent := numbering("other", 1, 1), numbering("b", 1, 2), numbering("b", 2, 3)
	for _, s := range []*spool{other, own, silent} {
		m.remember(s)
	}
	for i := range 2 * maxSpansOfNamespace {
		m.remember(numbering("b", 10+i, 4))
		if i%1000 == 0 { // it sends something now and then
			again := *own
			m.remember(&again)
		}
	}
	if m.known(other.spoolKey) == nil || m.known(own.spoolKey) == nil || m.known(silent.spoolKey) != nil {
		t.Errorf("another namespace's is known: %v; one of its own that sends: %v; a silent one: %v", m.known(other.spoolKey) != nil, m.known(own.spoolKey) != nil, m.known(silent.spoolKey) != nil)
	}
	if of := m.namespaces["b"]; len(m.spools) != maxSpansOfNamespace+1 || of.spans != maxSpansOfNamespace || of.order.Len() != maxSpansOfNamespace || len(m.epochs) != len(m.spools) {
		t.Errorf("%d known, %d of the namespace with %d spans, of %d proxies", len(m.spools), of.order.Len(), of.spans, len(m.epochs))
	}
	holes := numbering("b", 1, 9) // what it lost counts
	for seq := range uint64(maxSpans) {
		holes.spans, _ = holes.spans.add(10 + 2*seq)
	}
	m.remember(holes)
	if of := m.namespaces["b"]; of.spans > maxSpansOfNamespace || of.order.Len() > maxSpansOfNamespace-maxSpans+1 {
		t.Errorf("%d with %d spans", of.order.Len(), of.spans)
	}
	m.forgetSilent(time.Unix(9, 0))
	if len(m.spools) != 1 || len(m.epochs) != 1 || len(m.namespaces) != 1 || m.known(holes.spoolKey) == nil {
		t.Errorf("%d known, %d proxies, %d namespaces, want the last one", len(m.spools), len(m.epochs), len(m.namespaces))
	}
}

// TestLateNumberingStays: what is left in a spool of before a restart comes between what the next one sends, and is known while it does.
func TestLateNumberingStays(t *testing.T) {
	m := newRemembered()
	late := numbering("b", 1, 1)
	for epoch := range uint64(100) {
		m.remember(numbering("b", 1, 2+epoch))
		again := *late
		m.remember(&again)
	}
	if m.known(late.spoolKey) == nil || len(m.spools) != maxEpochs {
		t.Errorf("known: %v, of %d", m.known(late.spoolKey), len(m.spools))
	}
	versions := []uint64{}
	for _, s := range m.all() {
		versions = append(versions, s.version)
	}
	if !slices.IsSorted(versions) {
		t.Errorf("not in the order of their transactions: %v", versions)
	}
}
