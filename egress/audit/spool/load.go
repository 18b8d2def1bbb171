package spool

import (
	"fmt"
	"os"
	"slices"
)

// loadSegments scans the folder, cuts broken tails off and notes what is missing.
func (s *Spool) loadSegments() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	var firsts []uint64
	for _, e := range entries {
		if first, ok := segmentFirst(e.Name()); ok {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	for i, first := range firsts {
		seg, broken, err := scan(segmentPath(s.dir, first), first)
		if err != nil {
			return fmt.Errorf("spool: %w", err)
		}
		if broken > 0 {
			lost := uint64(1) // of the last segment nobody knows how many frames the broken bytes were
			if i+1 < len(firsts) && firsts[i+1] > seg.next {
				lost = firsts[i+1] - seg.next
			} else {
				// ... but not more than this; their numbers are not given out again.
				s.skip = uint64(broken)/frameHeader + 1
			}
			if err := s.cut(seg, broken, lost); err != nil {
				return err
			}
		}
		s.segments = append(s.segments, seg)
		s.bytes += seg.size
	}
	return nil
}

// cut ends a segment after its last good frame.
func (s *Spool) cut(seg *segment, broken int64, lost uint64) error {
	s.log.Warn("audit spool: broken frame, the rest of the segment is dropped",
		"file", seg.path, "offset", seg.size, "bytes", broken, "records", lost)
	if err := os.Truncate(seg.path, seg.size); err != nil {
		return fmt.Errorf("spool: cut off %d broken bytes: %w", broken, err)
	}
	if last := seg.next + lost - 1; last > s.acked {
		s.owe(min(lost, last-s.acked), fmt.Sprintf("%d broken bytes in the spool", broken))
	}
	return nil
}

// openLast opens the newest segment for writing; where that is to be a new one, begin does. Numbers never go back: neither behind the newest
// frame, nor behind what was acknowledged.
func (s *Spool) openLast() error {
	next := s.acked + 1
	if n := len(s.segments); n > 0 {
		last := s.segments[n-1]
		next = max(next, last.next+s.skip)
		if last.next == next && last.size < s.limits.SegmentBytes {
			f, err := os.OpenFile(last.path, os.O_WRONLY, 0o600)
			if err != nil {
				return fmt.Errorf("spool: %w", err)
			}
			s.active = f
			return nil
		}
	}
	s.segments = append(s.segments, &segment{path: segmentPath(s.dir, next), first: next, next: next})
	return nil
}

// begin makes the files without which nothing can be appended: the epoch's, and the open segment.
func (s *Spool) begin() error {
	if err := s.keepEpoch(); err != nil {
		return err
	}
	if s.active != nil {
		return nil
	}
	return s.openNew(s.segments[len(s.segments)-1].first)
}

// openNew makes the segment that begins with a number, and the one that is written to.
func (s *Spool) openNew(first uint64) error {
	path := segmentPath(s.dir, first)
	// O_TRUNC: a file of this name can only be an empty or wholly broken one.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	s.segments = slices.DeleteFunc(s.segments, func(seg *segment) bool { return seg.path == path })
	s.segments = append(s.segments, &segment{path: path, first: first, next: first})
	s.active = f
	return nil
}
