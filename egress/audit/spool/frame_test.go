package spool

import (
	"bytes"
	"os"
	"testing"
)

// appendFrame appends the frame of one payload.
func appendFrame(dst []byte, seq uint64, payload []byte) []byte {
	return endFrame(append(beginFrame(dst), payload...), len(dst), seq)
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendFrame(nil, 7, []byte(`{"class":"gap","count":3}`)))
	f.Add(appendFrame(appendFrame(nil, 1, []byte("{}")), 2, []byte("{}"))[:30])
	f.Fuzz(func(t *testing.T, b []byte) {
		seq, payload, size, err := readFrame(b)
		if err != nil {
			return
		}
		if !bytes.Equal(appendFrame(nil, seq, payload), b[:size]) {
			t.Errorf("frame %d of %d bytes does not come out as it went in", seq, size)
		}
	})
}

// FuzzOpen lets the spool start on any file content: it must start, and take and give a record.
func FuzzOpen(f *testing.F) {
	f.Add(appendFrame(nil, 1, []byte(`{"proxy":"a","class":"http"}`)), []byte{})
	f.Add(appendFrame(nil, 9, []byte(`{}`)), []byte("0123456789ab"))
	f.Add([]byte{0, 0, 0, 0}, []byte{1})
	f.Fuzz(func(t *testing.T, seg, ack []byte) {
		dir := t.TempDir()
		if os.WriteFile(segmentPath(dir, 1), seg, 0o600) != nil || os.WriteFile(dir+"/acked", ack, 0o600) != nil {
			t.Fatal("cannot write")
		}
		s := open(t, dir, Limits{MaxBytes: MinMaxBytes * 16})
		before := s.Stats().LastSeq
		if err := s.Append(rec(1)); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.LastSeq <= before {
			t.Errorf("the number went from %d to %d", before, st.LastSeq)
		}
	})
}
