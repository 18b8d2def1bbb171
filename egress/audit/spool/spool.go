package spool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/sallyport/sallyport/egress/audit/durable"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// ErrClosed is returned by the calls on a closed spool.
var ErrClosed = errors.New("spool: closed")

// Spool is a bounded queue of records on disk. Its methods may be called at the same time; Next is meant for one
// caller.
type Spool struct {
	dir    string
	limits Limits
	log    *slog.Logger
	epoch  uint64
	unkept []byte // what the file of a new epoch is to hold; nil: it does

	lock *os.File
	wake chan struct{} // one token: there may be something to read
	stop chan struct{} // closed by Close
	done chan struct{} // closed when syncLoop has ended

	mu       sync.Mutex
	closed   bool
	segments []*segment // oldest first; the last one is open for writing, there is always one
	active   *os.File   // nil where a full disk has no room for it
	dirty    bool       // the open segment has bytes that were not fsynced
	bytes    int64
	acked    uint64
	ackFile  *os.File
	skip     uint64    // numbers that broken frames at the end of the last segment may have had
	held     uint64    // highest number that Next handed out: its segment is dropped last
	owed     []owedGap // losses that no gap record tells of yet
	owedFile *os.File  // how many records they are, for after a restart; nil where there is no room even for that
	noted    uint64    // what it says
	buf      []byte    // what is written
	frames   []frame   // in buf
	reader   reader
	stats    Stats

	retired  chan *os.File // full segments on their way to fsync and close
	progress chan struct{} // closed, and replaced, by each Ack
}

type owedGap struct {
	count  uint64
	reason string
}

// Open takes the folder (made when missing, mode 0700) and what an earlier process left in it. A torn or broken frame
// ends its segment: the rest of that file is cut off and a gap record counts what is missing. It fails when another
// process has the folder; on a full disk it does not: there nothing can be appended until there is room, and a gap record counts what was.
func Open(dir string, limits Limits) (*Spool, error) {
	limits, err := limits.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s := &Spool{
		dir: dir, limits: limits, log: limits.Logger, lock: lock,
		wake: make(chan struct{}, 1), retired: make(chan *os.File, 16),
		stop: make(chan struct{}), done: make(chan struct{}), progress: make(chan struct{}),
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, closeAll(s.active, s.ackFile, s.owedFile, lock))
	}
	go s.syncLoop()
	s.signal()
	return s, nil
}

// load reads the folder: epoch, acknowledgement, segments; and opens the last segment for writing, unless the disk is full.
func (s *Spool) load() (err error) {
	if s.epoch, s.unkept, err = loadEpoch(s.dir, s.limits.BootID(), s.limits.Now()); err != nil {
		return err
	}
	if s.ackFile, s.acked, err = openNumber(s.dir, "acked"); err != nil {
		return err
	}
	s.openOwed()
	if err := s.loadSegments(); err != nil {
		return err
	}
	s.dropAcked()
	if err := s.openLast(); err != nil {
		return err
	}
	if err := s.begin(); durable.Full(err) {
		s.log.Error("audit spool: the disk is full: until there is room no record can be kept, and what is lost is counted", "err", err)
	} else if err != nil {
		return err
	}
	s.payOwed() // what is missing is told now, not when something else happens
	return nil
}

// Stats tells what the spool holds.
func (s *Spool) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Epoch, st.AckedSeq, st.Bytes = s.epoch, s.acked, s.bytes
	st.LastSeq = s.segments[len(s.segments)-1].next - 1
	return st
}

// Close fsyncs the open segment and gives the folder free. A Next that waits returns ErrClosed.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.payOwed()
	s.closed = true
	s.mu.Unlock()
	close(s.stop)
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signal()
	var err error
	if s.active != nil {
		err = s.active.Sync()
	}
	return errors.Join(err, closeAll(s.active, s.ackFile, s.owedFile, s.lock))
}

func closeAll(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// signal wakes a waiting Next.
func (s *Spool) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// gapRecord is the record of a loss. Count 0 would mean nothing, so an unknown number is given as at least 1.
func (s *Spool) gapRecord(g owedGap) record.Record {
	r := s.limits.Origin
	return record.Record{
		Proxy: r.Proxy, Reporter: r.Reporter, Workload: r.Workload,
		Time: s.limits.Now(), Class: record.Gap, Count: max(g.count, 1), Reason: g.reason,
	}
}

// syncLoop fsyncs off the callers' path: the open segment now and then, full ones before they are closed.
func (s *Spool) syncLoop() {
	defer close(s.done)
	tick := time.NewTicker(s.limits.SyncInterval)
	defer tick.Stop()
	for {
		select {
		case f := <-s.retired:
			s.finish(f)
		case <-tick.C:
			s.syncActive()
		case <-s.stop:
			for {
				select {
				case f := <-s.retired:
					s.finish(f)
				default:
					return
				}
			}
		}
	}
}

func (s *Spool) finish(f *os.File) {
	if err := errors.Join(f.Sync(), f.Close(), durable.SyncDir(s.dir)); err != nil {
		s.log.Warn("audit spool: a full segment could not be synced", "file", f.Name(), "err", err)
	}
}

func (s *Spool) syncActive() {
	s.mu.Lock()
	// A second descriptor: the first one may be retired and closed while the disk works.
	dirty, path := s.dirty, s.segments[len(s.segments)-1].path
	s.dirty = false
	s.mu.Unlock()
	if !dirty {
		return
	}
	f, err := os.Open(path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil && !os.IsNotExist(err) {
		s.log.Warn("audit spool: the open segment could not be synced", "file", path, "err", err)
	}
}
