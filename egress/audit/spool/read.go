package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// batchBytes bounds the JSON of one batch, so that it fits a message with room to spare.
const batchBytes = 1 << 20

// position remembers where in which segment the frame numbered seq begins.
type position struct {
	seq    uint64
	path   string
	offset int64
}

// Next returns the oldest records that are not acknowledged, at most limit of them and about 1 MiB, and waits while
// there are none. Called again before Ack, it returns the same records again. Errors: ctx's, ErrClosed, and those of
// the file system.
func (s *Spool) Next(ctx context.Context, limit int) ([]record.Record, error) {
	for {
		s.mu.Lock()
		closed := s.closed
		from, size, ok := s.find()
		s.mu.Unlock()
		if closed {
			s.signal() // for the next caller
			return nil, ErrClosed
		}
		if ok {
			batch, err := s.readBatch(from, size, limit)
			if err != nil {
				return nil, err
			}
			if len(batch) > 0 {
				return batch, nil
			}
			continue // the segment was dropped meanwhile, or cut
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.wake:
		}
	}
}

// find returns where the oldest unacknowledged frame is (or a place before it) and how many bytes there are to read.
func (s *Spool) find() (position, int64, bool) {
	for _, seg := range s.segments {
		if seg.next <= s.acked+1 || seg.size == 0 {
			continue
		}
		if s.pos.path == seg.path && s.pos.seq == s.acked+1 && s.pos.offset < seg.size {
			return s.pos, seg.size, true
		}
		return position{seq: seg.first, path: seg.path}, seg.size, true
	}
	return position{}, 0, false
}

// readBatch reads frames from a place up to an offset. A nil batch without an error means: look again.
func (s *Spool) readBatch(from position, end int64, limit int) ([]record.Record, error) {
	f, err := os.Open(from.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.skipBroken(from, nil, err)
	}
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	defer f.Close()
	s.mu.Lock()
	acked := s.acked
	s.mu.Unlock()
	for from.offset < end {
		// Frames before the first unacknowledged one are skipped; that happens after a restart only.
		batch, used, err := readWindow(f, from.offset, end, acked, limit)
		from.offset += used
		switch {
		case errors.Is(err, errFrameShort), errors.Is(err, errFrameLength), errors.Is(err, errFrameSum),
			errors.Is(err, errFrameRecord):
			return s.skipBroken(from, batch, err)
		case err != nil:
			return nil, err
		case len(batch) > 0:
			return s.handOut(batch, from), nil
		}
	}
	return nil, nil
}

// readWindow decodes the frames between two offsets that are newer than acked, until limit or batchBytes are reached;
// used is how many bytes it is done with.
func readWindow(f *os.File, offset, end int64, acked uint64, limit int) (batch []record.Record, used int64, err error) {
	data := make([]byte, min(end-offset, batchBytes+maxPayload+frameHeader))
	n, err := f.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("spool: %w", err)
	}
	for taken := 0; len(batch) < limit && taken < batchBytes && used < int64(len(data)); {
		seq, payload, size, err := readFrame(data[used:n])
		if errors.Is(err, errFrameShort) && n == len(data) && offset+int64(n) < end && used > 0 {
			break // the window ends within a frame
		}
		if err != nil {
			return batch, used, err
		}
		if seq <= acked {
			used += int64(size)
			continue
		}
		var r record.Record
		if err := json.Unmarshal(payload, &r); err != nil {
			return batch, used, fmt.Errorf("%w: %w", errFrameRecord, err)
		}
		used += int64(size)
		batch, taken = append(batch, r), taken+size
	}
	return batch, used, nil
}

// handOut notes what the reader holds and where it goes on.
func (s *Spool) handOut(batch []record.Record, after position) []record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := batch[len(batch)-1].Seq
	after.seq = last + 1
	s.pos, s.held = after, last
	return batch
}

// skipBroken deals with a frame that was good when it was written and is not now: first the batch before it is handed
// out, then, by the next call, the rest of the segment is given up and a gap record tells of it.
func (s *Spool) skipBroken(from position, batch []record.Record, cause error) ([]record.Record, error) {
	if len(batch) > 0 {
		return s.handOut(batch, from), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	for _, seg := range s.segments {
		if seg.path == from.path {
			return nil, s.giveUp(seg, cause)
		}
	}
	return nil, nil // dropped meanwhile to make room
}

// giveUp drops a segment that cannot be read; called with the lock held.
func (s *Spool) giveUp(seg *segment, cause error) error {
	if seg == s.segments[len(s.segments)-1] {
		if err := s.rotate(); err != nil {
			return err
		}
	}
	lost := seg.lost(s.acked)
	s.log.Error("audit spool: segment cannot be read", "file", seg.path, "records", lost, "err", cause)
	if err := os.Remove(seg.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("spool: %w", err)
	}
	s.forget(seg)
	if lost > 0 {
		s.owe(lost, "a segment of the audit spool could not be read: "+cause.Error())
		s.payOwed()
	}
	return nil
}
