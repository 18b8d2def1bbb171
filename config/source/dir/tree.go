package dir

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// tree is the directory as it was last read. Paths are joined to root.
type tree struct {
	root    string
	watcher *fsnotify.Watcher
	log     *slog.Logger
	dirs    map[string]fs.FileInfo // those that are watched
	store   *store
	scans   uint64 // so far
	path    []byte // room for one
}

func newTree(root string, w *fsnotify.Watcher, log *slog.Logger) *tree {
	return &tree{root: root, watcher: w, log: log, dirs: map[string]fs.FileInfo{}, store: newStore(root)}
}

// concerns returns the path to read again after an event about path, "" for none.
func (t *tree) concerns(path string) string {
	path = filepath.Clean(path)
	name := filepath.Base(path)
	_, watched := t.dirs[path]
	switch {
	case path == t.root || watched:
		return path
	case !t.inside(path): // beside the root, whose parent is watched
		return ""
	case swapped(name):
		return filepath.Dir(path)
	case isConfig(name):
		return path
	case hidden(name):
		return ""
	}
	// Of other names only directories matter, new ones here.
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return ""
}

func (t *tree) inside(path string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(t.root, "/")+"/")
}

// update reads what may have changed at those paths: files whole, directories by comparing sizes and times. It
// returns the changes of objects and the findings that are new.
func (t *tree) update(paths []string) ([]config.Change, []admission.Finding) {
	// What is gone comes first: a renamed directory keeps its kernel watch, which must not be taken from its new name.
	gone := func(path string) bool { _, err := os.Stat(path); return err != nil }
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(rank(gone(a)), rank(gone(b))) })
	var load []candidate
	for _, path := range paths {
		load = append(load, t.visit(path)...)
	}
	slices.SortFunc(load, func(a, b candidate) int { return strings.Compare(a.path, b.path) })
	load = slices.CompactFunc(load, func(a, b candidate) bool { return a.path == b.path })
	for some := range slices.Chunk(load, readAtOnce) {
		t.store.putAll(readAll(some, t.store))
	}
	t.store.rooms = nil
	return t.store.publish()
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func (t *tree) findings() []admission.Finding { return t.store.notes.All() }

// candidate is a file to read.
type candidate struct {
	path string
	info fs.FileInfo
}

// visit looks at one path and returns the files to read there.
func (t *tree) visit(path string) []candidate {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		if path == t.root {
			t.store.rootIsBack()
			t.watchParent()
		}
		return t.scan(path, info)
	case path == t.root:
		// Whoever removes the directory as a whole hardly means to remove every rule in it.
		t.unwatch(path)
		t.watchParent()
		t.store.rootIsGone(err)
		return nil
	case err == nil && info.Mode().IsRegular():
		return []candidate{{path, info}}
	case err == nil || errors.Is(err, fs.ErrNotExist):
		t.forget(path, nil)
		return nil
	default:
		t.store.unreadable(path, err)
		return nil
	}
}

// scan walks a directory, watches it, and returns the files that differ from what is known.
func (t *tree) scan(path string, info fs.FileInfo) []candidate {
	var load []candidate
	t.scans++
	seen := map[string]bool{}
	t.walk(path, info, nil, seen, &load)
	t.forget(path, seen)
	return load
}

func (t *tree) walk(path string, info fs.FileInfo, above []fs.FileInfo, seen map[string]bool, load *[]candidate) {
	if slices.ContainsFunc(above, func(a fs.FileInfo) bool { return os.SameFile(a, info) }) {
		return // a link to a directory that it is in
	}
	seen[path] = true
	t.watch(path, info) // before reading, so that nothing falls between
	entries, err := t.entries(path)
	if err != nil {
		t.store.unreadable(path, err)
		for known := range t.store.below(path) {
			seen[known] = true // kept: not being allowed to look is not the same as being gone
		}
		return
	}
	t.store.readable(path)
	above = append(slices.Clip(above), info)
	for _, e := range entries {
		child := filepath.Join(path, e.Name())
		if hidden(e.Name()) || (e.Type().IsRegular() && !isConfig(e.Name())) {
			continue
		}
		info, err := os.Stat(child)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a link to nothing, or gone by now
		case err != nil:
			seen[child] = true
			t.store.unreadable(child, err)
		case info.IsDir():
			t.walk(child, info, above, seen, load)
		case info.Mode().IsRegular() && isConfig(e.Name()):
			seen[child] = true
			if !t.store.same(child, info) {
				*load = append(*load, candidate{child, info})
			}
		}
	}
}

// entries are what is in a directory, but for known files that are as they were: of these there may be a hundred thousand, and they are looked at twice a minute, so they
// are looked at without making anything of them.
func (t *tree) entries(path string) ([]fs.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	var others []fs.DirEntry
	for {
		some, err := dir.ReadDir(entriesAtOnce)
		for _, e := range some {
			if !t.unchanged(dir, path, e) {
				others = append(others, e)
			}
		}
		if errors.Is(err, io.EOF) {
			return others, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// entriesAtOnce is how many entries of a directory are read at a time.
const entriesAtOnce = 512

// unchanged says of an entry of a directory that it is a known file that is as it was, and notes that it is there.
func (t *tree) unchanged(dir *os.File, path string, e fs.DirEntry) bool {
	t.path = append(append(append(t.path[:0], path...), filepath.Separator), e.Name()...)
	f := t.store.files[string(t.path)]
	if f == nil || !f.read || !e.Type().IsRegular() {
		return false
	}
	now, err := stampIn(dir, e.Name())
	if err != nil || now != f.stamp {
		return false
	}
	f.scan = t.scans
	return true
}

// forget removes what is known at or below path but for what was seen.
func (t *tree) forget(path string, seen map[string]bool) {
	if _, dir := t.dirs[path]; !dir && seen == nil {
		t.store.remove(path)
		return
	}
	for known, f := range t.store.below(path) { // one that is taken out of a map comes no more
		if there := seen != nil && (seen[known] || f.scan == t.scans); !there {
			t.store.remove(known)
		}
	}
	for _, dir := range slices.Collect(maps.Keys(t.dirs)) {
		if !seen[dir] && (dir == path || strings.HasPrefix(dir, path+"/")) {
			t.unwatch(dir)
		}
	}
}

// watch begins to watch a directory, again if another one has taken its place.
func (t *tree) watch(path string, info fs.FileInfo) {
	if t.watcher == nil {
		return
	}
	if known := t.dirs[path]; known != nil {
		if os.SameFile(known, info) && slices.Contains(t.watcher.WatchList(), path) {
			return
		}
		t.unwatch(path)
	}
	if err := t.watcher.Add(path); err != nil {
		t.log.Warn("cannot watch a directory: its changes are seen late, by scanning", "dir", path, "error", err)
		return
	}
	t.dirs[path] = info
}

func (t *tree) unwatch(path string) {
	delete(t.dirs, path)
	_ = t.watcher.Remove(path) // fails when the directory is gone, and its watch with it
}

// watchParent watches what the root is in, to see the root come, go and be swapped.
func (t *tree) watchParent() {
	parent := filepath.Dir(t.root)
	if parent == t.root || t.inside(parent) {
		return
	}
	if err := t.watcher.Add(parent); err != nil {
		t.log.Debug("cannot watch the directory's parent", "dir", parent, "error", err)
	}
}
