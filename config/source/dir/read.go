package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/source/wholefile"
)

// reading is what a file was found to hold.
type reading struct {
	path      string
	info      fs.FileInfo
	hash      uint64 // of its bytes
	unchanged bool   // the bytes are the known ones; nothing below is set
	empty     bool   // it has no bytes at all
	decode.Result
	refused map[config.Key]*config.Object // of Objects those that admission refuses, and what stands in for them; nil for nothing
}

// readAll reads files side by side and returns the readings in the same order.
func readAll(files []candidate, s *store) []reading {
	readings := make([]reading, len(files))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		g.Go(func() error {
			readings[i] = read(f, s)
			return nil
		})
	}
	_ = g.Wait()
	return readings
}

// read must only look at the store: it runs beside others.
func read(f candidate, s *store) reading {
	r := reading{path: f.path, info: f.info}
	name := s.name(f.path)
	if f.info.Size() > decode.MaxFile {
		r.Result = cannotRead(name, fmt.Errorf("the file has %d bytes, at most %d are read", f.info.Size(), decode.MaxFile))
		return r
	}
	data, err := wholefile.Read(f.path, decode.MaxFile) // by now it may be something else
	if os.IsNotExist(err) {
		r.info = nil // gone since it was seen
		return r
	} else if err != nil {
		r.Result = cannotRead(name, err)
		return r
	}
	r.hash = xxhash.Sum64(data)
	if known := s.files[f.path]; known != nil && known.read && known.hash == r.hash {
		r.unchanged = true
		return r
	}
	r.Result = decode.File(name, data)
	if r.empty = len(data) == 0; r.empty {
		r.State = decode.Partial
	}
	r.refused = map[config.Key]*config.Object{}
	for _, o := range r.Objects {
		findings := admission.Validate(o)
		r.Findings = append(r.Findings, findings...)
		if admission.Refused(findings) {
			r.refused[o.Key] = admission.ClosedStandIn(o, findings)
		}
	}
	for _, o := range r.Loose {
		about := slices.DeleteFunc(slices.Clone(r.Findings), func(f admission.Finding) bool { return f.Key != o.Key })
		r.refused[o.Key] = admission.ClosedStandIn(o, about)
	}
	return r
}

func cannotRead(name string, err error) decode.Result {
	return decode.Result{State: decode.Unreadable, Findings: []admission.Finding{Unreadable(name, err)}}
}

// Unreadable is what is found of a file that cannot be read.
func Unreadable(name string, err error) admission.Finding {
	return admission.Finding{Severity: admission.Error, Origin: name, Message: "cannot be read: " + reason(err), Fix: "make it readable for this process"}
}

// reason gives an error without the path that the finding already has.
func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// nameBelow gives a path as findings show it: relative to the directory, with slashes.
func nameBelow(root, path string) string {
	rel, err := filepath.Rel(root, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		return path
	}
	return filepath.ToSlash(rel)
}

// List returns the paths of the files that a Source on that directory would read, sorted, and what is found of those below it that nobody can look at, by their paths.
func List(root string) ([]string, []admission.Finding, error) {
	root = filepath.Clean(root)
	info, err := os.Stat(root)
	if err != nil {
		return nil, nil, err
	}
	if !info.IsDir() {
		return nil, nil, fmt.Errorf("%s is no directory", root)
	}
	t := newTree(root, nil, slog.New(slog.DiscardHandler))
	var paths []string
	for _, c := range t.scan(root, info) {
		paths = append(paths, c.path)
	}
	unread := t.store.notes.All()
	for i := range unread {
		unread[i].Origin = filepath.Join(root, unread[i].Origin)
	}
	slices.Sort(paths)
	return paths, unread, nil
}

// isConfig says whether a file of that name is read: *.yaml, *.yml and *.json, but no hidden files and none that
// editors keep beside the one being edited (.x.yaml.swp, x.yaml~, #x.yaml#, 4913).
func isConfig(name string) bool {
	return !hidden(name) && !strings.HasPrefix(name, "#") &&
		slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// swapped says whether name belongs to how Kubernetes replaces the files of a mounted ConfigMap at once: they are
// links into "..data", itself a link that is renamed.
func swapped(name string) bool { return strings.HasPrefix(name, "..") }
