package dir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/source/feed"
)

// Source watches one directory.
type Source struct {
	root    string
	options Options
	synced  chan struct{}

	mu       sync.Mutex
	findings []admission.Finding
}

// New makes a source that reads nothing until it is run.
func New(root string, o Options) *Source {
	if absolute, err := filepath.Abs(root); err == nil {
		root = absolute
	}
	return &Source{root: filepath.Clean(root), options: o.withDefaults(), synced: make(chan struct{})}
}

// Synced is closed once the first batch, which holds everything, was handed on.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Findings are those about the files as they are now, in order. The slice is the caller's.
func (s *Source) Findings() []admission.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.findings)
}

// Run reads the directory, hands what it holds to out, and goes on with each change until ctx ends, which is no
// error. out gets the changed objects in order of their keys, and the findings that are new; it is called from one
// goroutine, also when the first batch is empty. Run may be called once. It fails if the directory cannot be read
// at the start.
func (s *Source) Run(ctx context.Context, out func(batch []config.Change, findings []admission.Finding)) error {
	if _, err := os.ReadDir(s.root); err != nil {
		return fmt.Errorf("configuration directory: %w: name a directory of YAML files", err)
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("configuration directory %s: cannot watch for changes: %w", s.root, err)
	}
	defer watcher.Close()

	t := newTree(s.root, watcher, s.options.Logger)
	if s.options.Memory != "" {
		t.store.memory = newMemory(s.options.Memory, s.root, s.options.Logger)
	}
	publish := func(first bool, paths ...string) {
		batch, fresh := t.update(paths)
		s.mu.Lock()
		s.findings = t.findings()
		s.mu.Unlock()
		feed.Log(s.options.Logger, fresh)
		if first || len(batch)+len(fresh) > 0 {
			out(batch, fresh)
		}
	}
	publish(true, s.root)
	if !t.store.blind {
		t.store.memory.forgetOthers(t.store.files, t.store.name)
	}
	close(s.synced)

	rescan := time.NewTicker(s.options.Rescan)
	defer rescan.Stop()
	wait := feed.HoldOff{Quiet: s.options.Debounce, Longest: s.options.MaxHoldOff}
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	dirty := map[string]bool{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-watcher.Events:
			if !ok {
				return errors.New("configuration directory " + s.root + ": the watch ended")
			}
			if path := t.concerns(event.Name); path != "" {
				dirty[path] = true
				timer.Reset(wait.Note(time.Now()))
			}
		case err := <-watcher.Errors:
			// Events were lost, so anything may have changed.
			s.options.Logger.Warn("watching the configuration directory failed, scanning it", "dir", s.root, "error", err)
			dirty[s.root] = true
			timer.Reset(wait.Note(time.Now()))
		case <-rescan.C:
			dirty[s.root] = true
			timer.Reset(wait.Note(time.Now()))
		case <-timer.C:
			publish(false, slices.Sorted(maps.Keys(dirty))...)
			clear(dirty)
			wait.Done()
		}
	}
}

// Options set what has a default.
type Options struct {
	// Logger is told of each finding once; the default discards.
	Logger *slog.Logger
	// Debounce is how long the directory must be quiet before changes are read, so that files which belong
	// together arrive together: 25 ms.
	Debounce time.Duration
	// MaxHoldOff is how long changes wait at most while the directory is not quiet: 100 ms.
	MaxHoldOff time.Duration
	// Memory is a folder in which the last good versions of what closes something are kept, so that a restart opens nothing: the default is none.
	Memory string
	// Rescan is the time between scans for changes that no event told of: 30 s.
	Rescan time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Debounce = cmp.Or(o.Debounce, 25*time.Millisecond)
	o.MaxHoldOff = cmp.Or(o.MaxHoldOff, 100*time.Millisecond)
	o.Rescan = cmp.Or(o.Rescan, 30*time.Second)
	return o
}
