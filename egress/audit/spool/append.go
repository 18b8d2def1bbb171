package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	// maxOwed bounds the list of losses that wait for their gap record; further ones add to the last.
	maxOwed = 16
	// writeBytes is about how much goes into one write at most.
	writeBytes = 64 << 10
)

// Append numbers the records and writes them, each cut to record.MaxSize. It does not wait for the disk or for a reader. When it returns nil
// they survive the death of this process; when the file system refuses (disk full), it returns an error, and what is lost is told by a
// gap record as soon as writing works again.
func (s *Spool) Append(records ...record.Record) error {
	for i := range records {
		records[i].Bound()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	for len(records) > 0 {
		kept, err := s.appendSome(records)
		s.stats.Appended += uint64(kept)
		if err != nil {
			lost := len(records) - kept
			s.stats.WriteErrors += uint64(lost)
			s.owe(uint64(lost), "the audit spool could not be written")
			return err
		}
		records = records[kept:]
	}
	s.payOwed()
	s.signal()
	return nil
}

// appendSome writes as many records as go into one write, behind the gaps that are due.
func (s *Spool) appendSome(records []record.Record) (kept int, err error) {
	if !s.payOwed() {
		return 0, fmt.Errorf("spool: %s cannot be written", s.dir)
	}
	return s.write(records)
}

// AppendGap notes that count records were lost before they came here.
func (s *Spool) AppendGap(count uint64, reason string) error {
	if count == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.owe(count, reason)
	if !s.payOwed() {
		return fmt.Errorf("spool: %s cannot be written; the gap of %d records is told later", s.dir, count)
	}
	s.signal()
	return nil
}

// owe remembers a loss until it is written.
func (s *Spool) owe(count uint64, reason string) {
	if n := len(s.owed); n > 0 && (s.owed[n-1].reason == reason || n >= maxOwed) {
		s.owed[n-1].count += count
	} else {
		s.owed = append(s.owed, owedGap{count, reason})
	}
	s.noteOwed()
}

// payOwed writes the gap records that are due; false when the file system refuses, whether there are any or not.
func (s *Spool) payOwed() bool {
	if err := s.begin(); err != nil {
		s.log.Debug("audit spool: nothing can be appended yet", "err", err)
		return false
	}
	for len(s.owed) > 0 {
		// Taken out first: making room for it may lose records, which is then owed as well.
		g := s.owed[0]
		s.owed = s.owed[1:]
		if _, err := s.write([]record.Record{s.gapRecord(g)}); err != nil {
			s.owed = append([]owedGap{g}, s.owed...)
			s.log.Debug("audit spool: a gap record must wait", "err", err)
			s.noteOwed()
			return false
		}
	}
	s.noteOwed() // behind the records: a death in between makes them told twice, and never not at all
	return true
}

// write gives records their numbers and puts as many as go into one write into the open segment; it makes room first.
func (s *Spool) write(records []record.Record) (kept int, err error) {
	if s.segments[len(s.segments)-1].size >= s.limits.SegmentBytes {
		if err := s.rotate(); err != nil {
			return 0, err
		}
	}
	s.encode(records)
	if s.bytes+int64(len(s.buf)) > s.limits.MaxBytes {
		if err := s.makeRoom(int64(len(s.buf))); err != nil {
			return 0, err
		}
		s.encode(records) // again: a gap record may have taken the number
	}
	return s.put()
}

// encode leaves the frames of records, with the next numbers, in s.buf: of as many as fill it, and at least one.
func (s *Spool) encode(records []record.Record) {
	s.buf, s.frames = s.buf[:0], s.frames[:0]
	seq := s.segments[len(s.segments)-1].next
	for i := range records {
		r := &records[i]
		if r.Proxy == "" {
			r.Proxy = s.limits.Origin.Proxy
		}
		r.Epoch, r.Seq = s.epoch, seq
		at := len(s.buf)
		s.buf = endFrame(protobuf.AppendRecord(beginFrame(s.buf), r), at, seq)
		f := frame{end: len(s.buf)}
		if r.Class == record.Gap {
			f.gap = r.Count
		}
		s.frames = append(s.frames, f)
		if seq++; int64(len(s.buf)) >= min(writeBytes, s.limits.SegmentBytes) {
			return
		}
	}
}

// put writes s.buf at the end of the open segment, and says how many frames are there now. What a failed write leaves behind them is overwritten
// by the next one.
func (s *Spool) put() (kept int, err error) {
	last := s.segments[len(s.segments)-1]
	n, err := s.active.WriteAt(s.buf, last.size)
	for _, f := range s.frames {
		if f.end > n {
			break
		}
		kept++
		if f.gap > 0 {
			last.gaps = append(last.gaps, gap{last.next, f.gap})
		}
		last.next++
	}
	if kept > 0 {
		size := int64(s.frames[kept-1].end)
		last.size, s.bytes, s.dirty = last.size+size, s.bytes+size, true
	}
	if err != nil {
		if err := s.active.Truncate(last.size); err != nil {
			s.log.Warn("audit spool: a half-written frame stays in the file for now", "file", last.path, "err", err)
		}
		return kept, fmt.Errorf("spool: %w", err)
	}
	return kept, nil
}

// rotate closes the open segment and begins the next one. The disk's fsync happens elsewhere.
func (s *Spool) rotate() error {
	full, next := s.active, s.segments[len(s.segments)-1].next
	if err := s.openNew(next); err != nil {
		return err
	}
	s.dirty = false
	select {
	case s.retired <- full:
	default: // the disk is far behind; the page cache has the bytes, the kernel writes them in its own time
		if err := full.Close(); err != nil {
			return fmt.Errorf("spool: %w", err)
		}
	}
	return nil
}

// makeRoom drops the oldest segments until n more bytes fit. The gap record is written before its segment goes: a
// death in between makes it tell too much, never too little. The segment that a reader is just shipping goes last.
func (s *Spool) makeRoom(n int64) error {
	for s.bytes+n > s.limits.MaxBytes && len(s.segments) > 1 {
		victim := s.segments[0]
		if s.held > s.acked && victim.first <= s.held && len(s.segments) > 2 {
			victim = s.segments[1]
		}
		if lost := victim.lost(s.acked); lost > 0 {
			s.stats.Overflowed += lost
			s.tell(owedGap{lost, "the audit spool was full"})
		}
		if err := os.Remove(victim.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("spool: drop the oldest segment: %w", err)
		}
		s.forget(victim)
	}
	return nil
}

// tell writes a gap record without making room for it; if that fails it is owed.
func (s *Spool) tell(g owedGap) {
	s.encode([]record.Record{s.gapRecord(g)})
	if _, err := s.put(); err != nil {
		s.owe(g.count, g.reason)
	}
}
