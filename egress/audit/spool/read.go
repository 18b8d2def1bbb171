package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/sallyport/sallyport/egress/audit/protobuf"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	// batchBytes bounds a batch, so that it fits a message with room to spare.
	batchBytes = 1 << 20
	// windowBytes is how much is read at once, if frames are no longer than that.
	windowBytes = 512 << 10
	// restBytes is what a reader's buffer may keep while it waits.
	restBytes = 64 << 10
)

// position remembers where in which segment the frame numbered seq begins.
type position struct {
	seq    uint64
	path   string
	offset int64
}

// Batch is some records that follow each other.
type Batch struct {
	Body  []byte // an ingestpb.Batch; Next overwrites it
	Count int    // of records
	Last  uint64 // the number of the last one
}

// reader is what Next works with.
type reader struct {
	window []byte // of a segment
	batch  Batch
	pos    position // where it goes on
}

// Next returns the oldest records that are not acknowledged, at most limit of them and about 1 MiB, and waits while
// there are none. Called again before Ack, it returns the same records again. Errors: ctx's, ErrClosed, and those of
// the file system.
func (s *Spool) Next(ctx context.Context, limit int) (Batch, error) {
	for {
		s.mu.Lock()
		closed, acked := s.closed, s.acked
		from, size, ok := s.find()
		s.mu.Unlock()
		if closed {
			s.signal() // for the next caller
			return Batch{}, ErrClosed
		}
		if ok {
			if err := s.readBatch(from, size, acked, limit); err != nil {
				return Batch{}, err
			}
			if s.reader.batch.Count > 0 {
				return s.reader.batch, nil
			}
			continue // the segment was dropped meanwhile, or cut
		}
		s.reader.rest()
		select {
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		case <-s.wake:
		}
	}
}

// rest gives large buffers back.
func (r *reader) rest() {
	if cap(r.window)+cap(r.batch.Body) > restBytes {
		r.window, r.batch.Body = nil, nil
	}
}

// find returns where the oldest unacknowledged frame is (or a place before it) and how many bytes there are to read.
func (s *Spool) find() (position, int64, bool) {
	for _, seg := range s.segments {
		if seg.next <= s.acked+1 || seg.size == 0 {
			continue
		}
		if pos := s.reader.pos; pos.path == seg.path && pos.seq == s.acked+1 && pos.offset < seg.size {
			return pos, seg.size, true
		}
		return position{seq: seg.first, path: seg.path}, seg.size, true
	}
	return position{}, 0, false
}

// readBatch reads frames from a place up to an offset into the reader's batch. An empty one without an error means: look again.
func (s *Spool) readBatch(from position, end int64, acked uint64, limit int) error {
	r := &s.reader
	r.batch = Batch{Body: r.batch.Body[:0]}
	f, err := os.Open(from.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.skipBroken(from, err)
	}
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	defer f.Close()
	for from.offset < end {
		// Frames before the first unacknowledged one are skipped; that happens after a restart only.
		used, err := r.readWindow(f, from.offset, end, acked, limit)
		from.offset += used
		switch {
		case errors.Is(err, errFrameShort), errors.Is(err, errFrameLength), errors.Is(err, errFrameSum),
			errors.Is(err, errFrameRecord):
			return s.skipBroken(from, err)
		case err != nil:
			return err
		case r.batch.Count > 0:
			s.handOut(from)
			return nil
		}
	}
	return nil
}

// readWindow adds the frames between two offsets that are newer than acked to the batch, until limit or batchBytes are reached;
// used is how many bytes it is done with.
func (r *reader) readWindow(f *os.File, offset, end int64, acked uint64, limit int) (used int64, err error) {
	size := min(end-offset, windowBytes)
	n, err := r.readAt(f, offset, size)
	if err != nil {
		return 0, err
	}
	r.batch.Body = slices.Grow(r.batch.Body, n)
	for r.batch.Count < limit && len(r.batch.Body) < batchBytes && used < size {
		seq, payload, length, err := readFrame(r.window[used:n])
		if errors.Is(err, errFrameShort) && int64(n) == size && offset+size < end { // the window ends within a frame
			if used > 0 {
				break
			}
			size = min(end-offset, maxPayload+frameHeader)
			if n, err = r.readAt(f, offset, size); err == nil {
				seq, payload, length, err = readFrame(r.window[:n])
			}
		}
		if err != nil {
			return used, err
		}
		if seq > acked {
			if r.batch.Body, err = appendPayload(r.batch.Body, payload); err != nil {
				return used, err
			}
			r.batch.Count++
			r.batch.Last = seq
		}
		used += int64(length)
	}
	return used, nil
}

// readAt fills the window. Less than was asked for is no error: the file was cut.
func (r *reader) readAt(f *os.File, offset, size int64) (int, error) {
	r.window = slices.Grow(r.window[:0], int(size))[:size]
	n, err := f.ReadAt(r.window, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("spool: %w", err)
	}
	return n, nil
}

// appendPayload appends a frame's record as a batch has it.
func appendPayload(dst, payload []byte) ([]byte, error) {
	switch payload[0] {
	case protobuf.BatchRecord:
		return append(dst, payload...), nil
	case '{':
		var r record.Record
		if err := json.Unmarshal(payload, &r); err != nil {
			return dst, fmt.Errorf("%w: %w", errFrameRecord, err)
		}
		return protobuf.AppendRecord(dst, &r), nil
	default:
		return dst, errFrameRecord
	}
}

// handOut notes what the reader holds and where it goes on.
func (s *Spool) handOut(after position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after.seq = s.reader.batch.Last + 1
	s.reader.pos, s.held = after, s.reader.batch.Last
}

// skipBroken deals with a frame that was good when it was written and is not now: first the batch before it is handed
// out, then, by the next call, the rest of the segment is given up and a gap record tells of it.
func (s *Spool) skipBroken(from position, cause error) error {
	if s.reader.batch.Count > 0 {
		s.handOut(from)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	for _, seg := range s.segments {
		if seg.path == from.path {
			return s.giveUp(seg, cause)
		}
	}
	return nil // dropped meanwhile to make room
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
