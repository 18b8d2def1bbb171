package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Ack forgets every record up to and including seq. Numbers that were never given out are an error.
func (s *Spool) Ack(seq uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if seq <= s.acked {
		return nil
	}
	last := s.segments[len(s.segments)-1]
	if seq >= last.next {
		return fmt.Errorf("spool: acknowledgement of %d, but the highest number given out is %d", seq, last.next-1)
	}
	s.acked = seq
	if err := writeNumber(s.ackFile, seq); err != nil {
		s.log.Warn("audit spool: the acknowledgement is not on disk; records are sent again after a restart", "err", err)
	}
	if seq+1 == last.next && last.size > 0 {
		if err := s.rotateAcked(); err != nil {
			return err
		}
	}
	s.dropAcked()
	close(s.progress)
	s.progress = make(chan struct{})
	return nil
}

// Drain waits until everything that was appended is acknowledged: what an agent does before its pod, and the folder
// with it, goes away. Errors: ctx's and ErrClosed.
func (s *Spool) Drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		empty := s.acked+1 >= s.segments[len(s.segments)-1].next && len(s.owed) == 0
		closed, progress := s.closed, s.progress
		s.mu.Unlock()
		switch {
		case empty:
			return nil
		case closed:
			return ErrClosed
		}
		select {
		case <-progress:
		case <-s.stop:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rotateAcked replaces an open segment that is wholly acknowledged, once it is worth it.
func (s *Spool) rotateAcked() error {
	if s.segments[len(s.segments)-1].size < s.limits.SegmentBytes/2 {
		return nil
	}
	return s.rotate()
}

// dropAcked removes the segments in which everything is acknowledged, all but the open one.
func (s *Spool) dropAcked() {
	for len(s.segments) > 1 && s.segments[0].next <= s.acked+1 {
		seg := s.segments[0]
		if err := os.Remove(seg.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("audit spool: an acknowledged segment stays", "file", seg.path, "err", err)
			return
		}
		s.forget(seg)
	}
}

// forget takes a segment, whose file is gone, out of the list.
func (s *Spool) forget(seg *segment) {
	s.bytes -= seg.size
	s.segments = slices.DeleteFunc(s.segments, func(x *segment) bool { return x == seg })
}
