package plugin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Install is where the plugin goes.
type Install struct {
	BinDir  string // of the runtime's plugins
	ConfDir string // of its networks' configuration
	Program string // what is installed: its binary
	Entry   Entry
	Log     *slog.Logger

	seen os.FileInfo // of the binary that was found to be right

	mu   sync.Mutex
	lack error // why it is not installed
}

// errNotYet is before the first attempt.
var errNotYet = errors.New("it waits until pods can be served")

// Lacks says why the plugin is not installed; nil when it is.
func (i *Install) Lacks() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lack
}

func (i *Install) note(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil && (i.lack == nil || i.lack.Error() != err.Error()) {
		i.Log.Error("the CNI plugin is not installed, and pods may start around the mesh; it is tried again", "err", err)
	}
	i.lack = err
}

// Wait says that it will be installed, and is not yet.
func (i *Install) Wait() { i.lack = errNotYet }

// again is how often it is looked at whether the plugin is still there, beside when something changes in its folders.
const again = 5 * time.Second

// Keep installs the plugin, and installs it again when somebody takes it away, until ctx ends. It stays then.
func (i *Install) Keep(ctx context.Context) {
	tick := time.NewTicker(again)
	defer tick.Stop()
	var events chan fsnotify.Event
	if watcher, err := fsnotify.NewWatcher(); err == nil {
		defer func() { _ = watcher.Close() }()
		if err := errors.Join(watcher.Add(i.ConfDir), watcher.Add(i.BinDir)); err != nil {
			i.Log.Warn("changes of the CNI configuration are seen late", "err", err, "every", again)
		}
		events = watcher.Events
	}
	for {
		i.note(i.ensure())
		select {
		case <-ctx.Done():
			return
		case <-events:
		case <-tick.C:
		}
	}
}

// ensure has the plugin installed. It changes nothing where it is.
func (i *Install) ensure() error {
	if err := i.copy(); err != nil {
		return fmt.Errorf("the binary: %w", err)
	}
	path, err := chosen(i.ConfDir)
	if err != nil {
		return err
	}
	return change(path, func(text []byte) ([]byte, error) { return With(text, i.Entry) }, i.Log)
}

// Remove takes the plugin away: first out of every network's configuration, then its binary.
func (i *Install) Remove() error {
	paths, err := networks(i.ConfDir)
	errs := []error{err}
	for _, path := range paths {
		if filepath.Ext(path) == listSuffix {
			errs = append(errs, change(path, func(text []byte) ([]byte, error) { return Without(text, i.Entry.Type) }, i.Log))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // who still calls it must find it
	}
	if err := os.Remove(filepath.Join(i.BinDir, i.Entry.Type)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

const listSuffix = ".conflist"

// networks are the files that runtimes read, in their order.
func networks(folder string) ([]string, error) {
	files, err := os.ReadDir(folder) // by name
	var out []string
	for _, f := range files {
		if slices.Contains([]string{listSuffix, ".conf", ".json"}, filepath.Ext(f.Name())) {
			out = append(out, filepath.Join(folder, f.Name()))
		}
	}
	return out, err
}

// chosen is the file of the network that runtimes use: the first one.
func chosen(folder string) (string, error) {
	paths, err := networks(folder)
	switch {
	case err != nil:
		return "", err
	case len(paths) == 0:
		return "", fmt.Errorf("%s: there is no network configuration (yet)", folder)
	case filepath.Ext(paths[0]) != listSuffix:
		return "", fmt.Errorf("%s: runtimes use it, and it is no list of plugins that one could be added to: write it as a %s", paths[0], listSuffix)
	}
	return paths[0], nil
}

// change rewrites a file, unless that gives the same.
func change(path string, f func([]byte) ([]byte, error), log *slog.Logger) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	next, err := f(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if bytes.Equal(text, next) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := replace(path, info.Mode().Perm(), bytes.NewReader(next)); err != nil {
		return err
	}
	log.Info("the CNI configuration is changed", "file", path)
	return nil
}

// copy brings the binary there, unless it is. What was once compared is looked at by its time and size only.
func (i *Install) copy() error {
	to := filepath.Join(i.BinDir, i.Entry.Type)
	there, err := os.Stat(to)
	if err == nil && i.seen != nil && os.SameFile(there, i.seen) && there.ModTime().Equal(i.seen.ModTime()) && there.Size() == i.seen.Size() {
		return nil
	}
	from, err := os.Open(i.Program)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	if !same(i.Program, to) {
		if err := replace(to, 0o755, from); err != nil {
			return err
		}
	}
	i.seen, err = os.Stat(to)
	return err
}

// same says whether two files have the same content.
func same(a, b string) bool {
	sums := [2][]byte{}
	for i, path := range []string{a, b} {
		f, err := os.Open(path)
		if err != nil {
			return false
		}
		hash := sha256.New()
		_, err = io.Copy(hash, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return false
		}
		sums[i] = hash.Sum(nil)
	}
	return bytes.Equal(sums[0], sums[1])
}

// replace writes a file as a whole or not at all; what is left of an attempt that died has no suffix that a runtime reads.
func replace(path string, mode os.FileMode, content io.Reader) error {
	next := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	f, err := os.OpenFile(next, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return os.Rename(next, path)
}
