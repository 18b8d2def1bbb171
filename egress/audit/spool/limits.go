package spool

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Limits bounds a spool. Zero fields take the defaults.
type Limits struct {
	MaxBytes     int64         // of all segments together; default 256 MiB, at least 64 KiB
	SegmentBytes int64         // a segment is closed at this size; default MaxBytes/8, at most 8 MiB
	SyncInterval time.Duration // between two fsyncs of the open segment; default 1 s

	// Origin gives the gap records that the spool itself writes their Proxy, Reporter and Workload. Append fills in
	// an empty Record.Proxy from it.
	Origin record.Record

	Logger *slog.Logger     // default: nothing is logged
	Now    func() time.Time // default time.Now

	// BootID names the current boot of the host; default: what Linux says. Sequence numbers are only trusted to go
	// on within one boot: a power loss can take frames that were already shipped, and their numbers with them.
	BootID func() string
}

const (
	// DefaultMaxBytes is the usual Limits.MaxBytes.
	DefaultMaxBytes = 256 << 20
	// MinMaxBytes is the least.
	MinMaxBytes     = 64 << 10
	maxSegmentBytes = 8 << 20
)

func (l Limits) withDefaults() (Limits, error) {
	if l.MaxBytes == 0 {
		l.MaxBytes = DefaultMaxBytes
	}
	if l.MaxBytes < MinMaxBytes {
		return l, fmt.Errorf("spool: MaxBytes %d: give at least %d", l.MaxBytes, MinMaxBytes)
	}
	if l.SegmentBytes == 0 {
		l.SegmentBytes = min(l.MaxBytes/8, maxSegmentBytes)
	}
	if l.SegmentBytes < 0 || l.SegmentBytes > l.MaxBytes/2 {
		return l, fmt.Errorf("spool: SegmentBytes %d: give at most half of MaxBytes %d", l.SegmentBytes, l.MaxBytes)
	}
	if l.SyncInterval <= 0 {
		l.SyncInterval = time.Second
	}
	if l.Logger == nil {
		l.Logger = slog.New(slog.DiscardHandler)
	}
	if l.Now == nil {
		l.Now = time.Now
	}
	if l.BootID == nil {
		l.BootID = hostBootID
	}
	return l, nil
}

// Stats is a snapshot of what a spool holds and did since it was opened.
type Stats struct {
	Epoch       uint64
	LastSeq     uint64 // highest number given out
	AckedSeq    uint64 // highest number acknowledged
	Bytes       int64  // on disk
	Appended    uint64 // records accepted
	Overflowed  uint64 // records dropped to make room
	WriteErrors uint64 // records that the file system refused
}
