package spool

import (
	"math"

	"golang.org/x/sys/unix"
)

// Room is how many bytes more can be appended before something has to be dropped: what is left of MaxBytes, or on the disk if that is less.
// While a loss waits for its gap record, because the file system refuses, or what is needed for any, it is 0.
func (s *Spool) Room() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if owed := len(s.owed) > 0; s.closed || !s.payOwed() {
		return 0
	} else if owed {
		s.signal()
	}
	left := s.limits.MaxBytes - s.bytes
	return max(min(left, diskLeft(s.dir)), 0)
}

// diskLeft is how much an unprivileged process may write where the folder is. Where that cannot be told, writes will.
func diskLeft(dir string) int64 {
	var disk unix.Statfs_t
	if unix.Statfs(dir, &disk) != nil || disk.Blocks == 0 {
		return math.MaxInt64
	}
	return int64(min(disk.Bavail, math.MaxInt64/uint64(max(disk.Bsize, 1)))) * disk.Bsize
}

// Reserve is how much room there should be for the records of what is under way: an eighth of MaxBytes, 16 MiB at most.
func (s *Spool) Reserve() int64 { return min(s.limits.MaxBytes/8, 16<<20) }
