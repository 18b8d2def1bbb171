package spool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const segmentSuffix = ".seg"

// A segment is one file of frames whose sequence numbers follow each other without holes.
type segment struct {
	path  string
	first uint64 // sequence number of the first frame, also of one that is still to come
	next  uint64 // sequence number after the last frame
	size  int64  // bytes of whole frames
	gaps  []gap  // what earlier losses the gap records in it account for
}

// gap is one gap record in a segment: losing it loses the count that it carries too.
type gap struct{ seq, count uint64 }

func segmentPath(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", first, segmentSuffix))
}

// segmentFirst reads the first sequence number from a file name; ok is false for other files.
func segmentFirst(name string) (first uint64, ok bool) {
	digits, found := strings.CutSuffix(name, segmentSuffix)
	if !found || len(digits) != 20 {
		return 0, false
	}
	first, err := strconv.ParseUint(digits, 10, 64)
	return first, err == nil && first > 0
}

// lost counts the records that disappear with the segment when everything up to acked was acknowledged.
func (s *segment) lost(acked uint64) uint64 {
	from := max(s.first, acked+1)
	if from >= s.next {
		return 0
	}
	n := s.next - from
	for _, g := range s.gaps {
		if g.seq >= from && g.count > 0 {
			n += g.count - 1 // the gap record is no lost record itself, it stands for count others
		}
	}
	return n
}

// scan reads a segment's frames up to the first broken one. broken says how many bytes follow the last good frame.
func scan(path string, first uint64) (s *segment, broken int64, err error) {
	data, err := os.ReadFile(path) // at most a segment's size, once, at start
	if err != nil {
		return nil, 0, err
	}
	s = &segment{path: path, first: first, next: first}
	for rest := data; len(rest) > 0; {
		seq, payload, size, err := readFrame(rest)
		if err != nil || seq != s.next {
			break
		}
		s.note(seq, payload)
		rest = rest[size:]
		s.size += int64(size)
		s.next++
	}
	return s, int64(len(data)) - s.size, nil
}

// note remembers what a payload is worth when it is a gap record.
func (s *segment) note(seq uint64, payload []byte) {
	if count := gapCount(payload); count > 0 {
		s.gaps = append(s.gaps, gap{seq, count})
	}
}

// gapCount is how many records a gap record stands for; 0 of others.
func gapCount(payload []byte) uint64 {
	var r record.Record
	switch {
	case !bytes.Contains(payload, []byte(record.Gap)):
	case payload[0] == protobuf.BatchRecord:
		for f := protobuf.Scan(string(payload)); f.Next(); {
			if f.Tag == protobuf.BatchRecord && protobuf.ReadRecord(f.Text, &r) != nil {
				return 0
			}
		}
	default:
		if json.Unmarshal(payload, &r) != nil {
			return 0
		}
	}
	if r.Class != record.Gap {
		return 0
	}
	return r.Count
}
