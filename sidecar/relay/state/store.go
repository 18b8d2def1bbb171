package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// Delay is how long a change may wait in memory before it is written.
const Delay = 200 * time.Millisecond

const suffix = ".log"

// Store is a directory of tables, one for each resource type.
type Store struct {
	dir   string
	owner string
	log   *slog.Logger
	wake  chan struct{}

	mu     sync.Mutex
	tables map[string]*Table
}

// Open loads the state that owner (a node id) left in dir, and makes dir (mode 0700: bodies can hold secrets) if it
// is missing. Damage is logged, cut off or set aside, never an error: the controller can give everything again.
func Open(dir, owner string, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	s := &Store{dir: dir, owner: owner, log: log, wake: make(chan struct{}, 1), tables: map[string]*Table{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(dir, file.Name())
		switch {
		case strings.HasSuffix(file.Name(), suffix):
			s.load(path)
		case strings.HasSuffix(file.Name(), suffix+".new"): // a compaction that did not end
			if err := os.Remove(path); err != nil {
				log.Warn("cannot remove an unfinished state file", "file", path, "err", err)
			}
		}
	}
	return s, nil
}

func (s *Store) load(path string) {
	table, err := openTable(path, s.owner)
	switch {
	case table == nil:
		s.log.Warn("state file not used; it will be replaced", "file", path, "err", err)
		if err := os.Remove(path); err != nil {
			s.log.Warn("cannot remove a state file", "file", path, "err", err)
		}
		return
	case err != nil:
		s.log.Warn("state file was damaged; what came before the damage is used", "file", path, "resources", len(table.index), "err", err)
	}
	table.wake = s.poke
	s.tables[table.url] = table
}

// Table gives the table of a type, new and empty if there was none.
func (s *Store) Table(typeURL string) *Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tables[typeURL]
	if !ok {
		short := strings.TrimPrefix(typeURL, "type.googleapis.com/")
		t = &Table{
			url: typeURL, path: filepath.Join(s.dir, url.PathEscape(short)+suffix), wake: s.poke,
			index: map[string]place{}, pending: map[string]*discoveryv3.Resource{},
		}
		s.tables[typeURL] = t
	}
	return t
}

// poke tells the writer, without waiting for it.
func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run writes changes, each at most Delay after it was made, until ctx ends; then it writes the last ones and closes
// the files. A disk that refuses is logged and tried again; what could not be written stays in memory.
func (s *Store) Run(ctx context.Context) error {
	defer s.close()
	var due <-chan time.Time
	var last string
	for {
		select {
		case <-ctx.Done():
			return s.Flush()
		case <-s.wake:
			if due == nil {
				due = time.After(Delay)
			}
		case <-due:
			due = nil
			err := s.Flush()
			if err == nil {
				last = ""
				continue
			}
			if err.Error() != last {
				s.log.Error("cannot write the accepted configuration; a restart without controller would not have it", "dir", s.dir, "err", err)
				last = err.Error()
			}
			due = time.After(25 * Delay)
		}
	}
}

// Flush writes all that is pending now.
func (s *Store) Flush() error {
	s.mu.Lock()
	tables := make([]*Table, 0, len(s.tables))
	for _, t := range s.tables {
		tables = append(tables, t)
	}
	s.mu.Unlock()
	var errs []error
	for _, t := range tables {
		if err := t.flush(s.owner); err != nil {
			errs = append(errs, fmt.Errorf("state of %s: %w", t.url, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		t.mu.Lock()
		if t.file != nil {
			if err := t.file.Close(); err != nil {
				s.log.Warn("cannot close a state file", "file", t.path, "err", err)
			}
		}
		t.mu.Unlock()
	}
}

func compare(a, b string) int { return cmp.Compare(a, b) }
