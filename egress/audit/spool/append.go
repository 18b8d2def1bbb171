package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// maxOwed bounds the list of losses that wait for their gap record; further ones add to the last.
const maxOwed = 16

// Append numbers the record and writes it, cut to record.MaxSize. It does not wait for the disk or for a reader. When it returns nil the
// record survives the death of this process; when the file system refuses (disk full), it returns an error and the
// loss is told by a gap record as soon as writing works again.
func (s *Spool) Append(r record.Record) error {
	r.Bound()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if !s.payOwed() {
		s.stats.WriteErrors++
		s.owe(1, "the audit spool could not be written")
		return fmt.Errorf("spool: %s cannot be written", s.dir)
	}
	if err := s.write(r); err != nil {
		s.stats.WriteErrors++
		s.owe(1, "the audit spool could not be written")
		return err
	}
	s.stats.Appended++
	s.payOwed()
	s.signal()
	return nil
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
		return
	}
	s.owed = append(s.owed, owedGap{count, reason})
}

// payOwed writes the gap records that are due; false when the file system refuses.
func (s *Spool) payOwed() bool {
	for len(s.owed) > 0 {
		// Taken out first: making room for it may lose records, which is then owed as well.
		g := s.owed[0]
		s.owed = s.owed[1:]
		if err := s.write(s.gapRecord(g)); err != nil {
			s.owed = append([]owedGap{g}, s.owed...)
			s.log.Debug("audit spool: a gap record must wait", "err", err)
			return false
		}
	}
	return true
}

// write gives a record its number and puts it into the open segment; it makes room first.
func (s *Spool) write(r record.Record) error {
	if s.segments[len(s.segments)-1].size >= s.limits.SegmentBytes {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	if err := s.encode(r); err != nil {
		return err
	}
	if s.bytes+int64(len(s.buf)) <= s.limits.MaxBytes {
		return s.put()
	}
	if err := s.makeRoom(int64(len(s.buf))); err != nil {
		return err
	}
	if err := s.encode(r); err != nil { // again: a gap record may have taken the number
		return err
	}
	return s.put()
}

// encode leaves the record's frame, with the next number, in s.buf.
func (s *Spool) encode(r record.Record) error {
	if r.Proxy == "" {
		r.Proxy = s.limits.Origin.Proxy
	}
	r.Epoch, r.Seq = s.epoch, s.segments[len(s.segments)-1].next
	payload, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("spool: record of host %q: %w", r.Host, err)
	}
	if len(payload) > maxPayload {
		return fmt.Errorf("spool: record of %d bytes (host %.64q): at most %d fit", len(payload), r.Host, maxPayload)
	}
	s.buf = appendFrame(s.buf[:0], r.Seq, payload)
	return nil
}

// put writes s.buf at the end of the open segment. What a failed write leaves there is overwritten by the next one.
func (s *Spool) put() error {
	last := s.segments[len(s.segments)-1]
	if _, err := s.active.WriteAt(s.buf, last.size); err != nil {
		if err := s.active.Truncate(last.size); err != nil {
			s.log.Warn("audit spool: a half-written frame stays in the file for now", "file", last.path, "err", err)
		}
		return fmt.Errorf("spool: %w", err)
	}
	last.note(last.next, s.buf[frameHeader:])
	last.size += int64(len(s.buf))
	last.next++
	s.bytes += int64(len(s.buf))
	s.dirty = true
	return nil
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
	err := s.encode(s.gapRecord(g))
	if err == nil {
		err = s.put()
	}
	if err != nil {
		s.owe(g.count, g.reason)
	}
}
