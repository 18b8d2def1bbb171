package spool

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestRecordsOfAnOlderAgent are JSON: they are read and shipped beside newer ones, and their gaps are counted.
func TestRecordsOfAnOlderAgent(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{}) // for the epoch
	epoch := s.Stats().Epoch
	s.Close()
	var old []record.Record
	var segment []byte
	for i := range 5 {
		r := rec(i)
		r.Epoch, r.Seq = epoch, uint64(i+1)
		if i == 2 {
			r = record.Record{Proxy: "p", Epoch: epoch, Seq: 3, Class: record.Gap, Count: 70, Time: r.Time}
		}
		payload, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		old, segment = append(old, r), appendFrame(segment, r.Seq, payload)
	}
	if err := os.WriteFile(segmentPath(dir, 1), segment, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir, Limits{})
	if seg := s.segments[0]; len(seg.gaps) != 1 || seg.gaps[0] != (gap{3, 70}) || seg.lost(0) != 4+70 {
		t.Errorf("gaps %+v", seg.gaps)
	}
	appendN(t, s, 5, 8)
	got := drain(t, s)
	if len(got) != 8 || got[7].Seq != 8 || got[7].Host != "h7.example.com" {
		t.Fatalf("%+v", got)
	}
	if d := cmp.Diff(old, got[:5]); d != "" {
		t.Error(d)
	}
}

// TestGapsAreKnownAgain after a restart, so that losing them loses their counts.
func TestGapsAreKnownAgain(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Limits{})
	appendN(t, s, 0, 2)
	if err := s.AppendGap(41, "lost"); err != nil {
		t.Fatal(err)
	}
	want := s.segments[0].gaps
	s.Close()
	s = open(t, dir, Limits{})
	if seg := s.segments[0]; len(want) != 1 || len(seg.gaps) != 1 || seg.gaps[0] != want[0] || seg.lost(0) != 2+41 {
		t.Errorf("gaps %+v, they were %+v", seg.gaps, want)
	}
}

// TestPayloadThatIsNone is a segment that cannot be read: a gap.
func TestPayloadThatIsNone(t *testing.T) {
	for _, payload := range []string{"?", "{"} {
		dir := t.TempDir()
		if err := os.WriteFile(segmentPath(dir, 1), appendFrame(nil, 1, []byte(payload)), 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, dir, Limits{})
		appendN(t, s, 1, 2)
		got := drain(t, s)
		lost := uint64(0)
		for _, r := range got {
			lost += r.Count
		}
		if lost != 2 || len(hosts(got)) != 0 {
			t.Errorf("%q: %+v", payload, got)
		}
	}
}
