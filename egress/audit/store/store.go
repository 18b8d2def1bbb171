package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// ErrClosed is returned by the calls on a closed store.
var ErrClosed = errors.New("audit store: closed")

// Store is the writing end and, by DB, the reading end of the database.
type Store struct {
	db      *sql.DB
	writer  *duck.Writer // of the writer's goroutine
	options Options
	log     *slog.Logger
	layout  layout // of RowsTable
	wholes  layout // of WholeTable
	seen    *seen  // of the writer's goroutine
	nth     int64  // of the next row; of the writer's goroutine
	// dictionaries are those of parts, in their order; of the writer's goroutine.
	dictionaries []*dictionary

	requests chan request
	closing  chan struct{} // closed by Close: nothing new is taken
	done     chan struct{} // closed when the writer has ended
	failed   chan struct{} // closed when DuckDB says that only opening it again helps
	failOnce sync.Once
	stopOnce sync.Once

	gatherer  gatherer
	lastIn    time.Time // when the last records came in; of the writer's goroutine
	held      held
	followers followers
	stored    atomic.Uint64
	copies    atomic.Uint64
}

// request is a piece of work for the writer: a batch, or anything else that writes.
type request struct {
	records []record.Record
	copies  bool // from another store, which has them
	work    func(context.Context) error
	done    chan<- error
}

// Stats counts since the store was opened.
type Stats struct {
	Stored uint64 // records
	Copies uint64 // records dropped, since the store had them
}

func start(ctx context.Context, file string, db *sql.DB, o Options) (*Store, error) {
	if err := migrate(ctx, db, o.Now().UTC()); err != nil {
		return nil, err
	}
	if err := dropEarlier(ctx, db); err != nil {
		return nil, err
	}
	columns, err := layoutOf(ctx, db, RowsTable)
	if err != nil {
		return nil, err
	}
	wholes, err := layoutOf(ctx, db, WholeTable)
	if err != nil {
		return nil, err
	}
	dictionaries, err := loadDictionaries(ctx, db)
	if err != nil {
		return nil, err
	}
	known, err := loadSeen(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := prepareInputs(ctx, db); err != nil {
		return nil, err
	}
	if err := prepareCopies(ctx, db); err != nil {
		return nil, err
	}
	var rows int64
	if err := db.QueryRowContext(ctx, "SELECT coalesce(max("+nthColumn+"), 0) FROM "+RowsTable).Scan(&rows); err != nil {
		return nil, fmt.Errorf("audit store: read the table %s: %w", RowsTable, err)
	}
	last, err := lastIngested(ctx, db)
	if err != nil {
		return nil, err
	}
	writer, err := duck.OpenWriter(file, o.settings(false))
	if err != nil {
		return nil, fmt.Errorf("audit store: %w", err)
	}
	s := &Store{
		db: db, writer: writer, options: o, log: o.Logger, layout: columns, wholes: wholes, nth: rows + 1, dictionaries: dictionaries, seen: known, lastIn: last, held: newHeld(o.Held),
		requests: make(chan request, 64), closing: make(chan struct{}), done: make(chan struct{}),
		failed: make(chan struct{}), gatherer: gatherer{enough: make(chan struct{}, 1), done: make(chan struct{})},
	}
	go s.writeLoop()
	go s.gatherLoop(context.WithoutCancel(ctx))
	return s, nil
}

// Store writes the records that the store does not have yet. nil means: all of them are on disk. When ctx ends first,
// they may or may not come to be stored, and are read as long as that is open: don't change them.
func (s *Store) Store(ctx context.Context, records []record.Record) error {
	return s.hand(ctx, request{records: records})
}

// DB is for reading: SQL on it can reach no file and no setting. The table is named by Table.
func (s *Store) DB() *sql.DB { return s.db }

// Failed is closed when the database cannot be used any more without opening it again (DuckDB's fatal errors).
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Stats tells what was stored.
func (s *Store) Stats() Stats { return Stats{s.stored.Load(), s.copies.Load()} }

// Close finishes what was handed in and closes the database.
func (s *Store) Close() error {
	s.stopOnce.Do(func() { close(s.closing) })
	<-s.done
	<-s.gatherer.done
	s.followers.close()
	s.writer.Close()
	return s.db.Close()
}

// hand gives the writer a piece of work and waits for its end.
func (s *Store) hand(ctx context.Context, r request) error {
	done := make(chan error, 1)
	r.done = done
	select {
	case <-s.closing:
		return ErrClosed
	default:
	}
	select {
	case s.requests <- r:
	case <-s.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-s.done:
		select {
		case err := <-done:
			return err
		default:
			return ErrClosed
		}
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ask has the writer find something out. When ctx ends first the writer still works: what it finds is its own until it is done.
func ask[T any](ctx context.Context, s *Store, work func(context.Context) (T, error)) (T, error) {
	var found T
	err := s.hand(ctx, request{work: func(ctx context.Context) (err error) {
		found, err = work(ctx)
		return err
	}})
	if err != nil {
		var nothing T
		return nothing, err
	}
	return found, nil
}

// groupRecords is about how many records one transaction takes.
const groupRecords = 20_000

// writeLoop does the work that is handed in. Batches that wait together go into one transaction.
func (s *Store) writeLoop() {
	defer close(s.done)
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	s.maintain()
	for {
		select {
		case r := <-s.requests:
			s.do(r)
			if !s.seen.long() {
				continue
			}
			if err := s.compactSpools(); err != nil {
				s.log.Error("audit store: maintenance failed", "err", err)
			}
		case <-hourly.C:
			s.maintain()
		case <-s.closing:
			for {
				select {
				case r := <-s.requests:
					s.do(r)
				default:
					return
				}
			}
		}
	}
}

// do serves a request and the batches of its kind that wait behind it, then what it met behind them.
func (s *Store) do(first request) {
	for next := &first; next != nil; {
		r := *next
		if next = nil; r.work != nil {
			r.done <- r.work(context.Background())
			return
		}
		group, size := []request{r}, len(r.records)
		for size < groupRecords && next == nil {
			select {
			case other := <-s.requests:
				if other.work != nil || other.copies != r.copies {
					next = &other
					continue
				}
				group, size = append(group, other), size+len(other.records)
				continue
			default:
			}
			break
		}
		s.write(group)
	}
}

// write stores a group; when that fails each batch is tried alone, so that one does not spoil the others.
func (s *Store) write(group []request) {
	batches := make([][]record.Record, len(group))
	for i, r := range group {
		batches[i] = r.records
	}
	err := s.commit(batches, group[0].copies)
	if err == nil || len(group) == 1 {
		for _, r := range group {
			r.done <- err
		}
		return
	}
	s.log.Warn("audit store: a group of batches failed, each is tried alone", "batches", len(group), "err", err)
	for _, r := range group {
		r.done <- s.commit([][]record.Record{r.records}, r.copies)
	}
}

// fail wraps an error of the database and notices the fatal ones.
func (s *Store) fail(what string, err error) error {
	if isFatal(err) {
		s.failOnce.Do(func() { close(s.failed) })
	}
	return fmt.Errorf("audit store: %s: %w", what, err)
}
