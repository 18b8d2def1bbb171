package dir

import (
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/source/feed"
)

// store holds the good objects of each file, decides which file's version of an object counts, and what changed
// since the last time that was asked.
type store struct {
	root    string
	files   map[string]*file
	owners  config.ByKey[config.Texts] // the files that hold an object, sorted; the first one's counts
	touched map[config.Key]*published  // since publish, with what was handed on; nil of what was not there
	notes   *feed.Notes[string]
	memory  *memory // nil: none
	rooms   *rooms  // of what is read now, if that is many files
	blind   bool    // something could not be looked at
}

// published is what is known of an object that was handed on.
type published struct{ hash uint64 }

// file is what is known of one file.
type file struct {
	stamp   stamp
	hash    uint64
	read    bool // its bytes were read, and hash is theirs
	objects contents
	scan    uint64 // the last one that found it as it was
}

// object gives a known file's version of an object that it holds.
func (s *store) object(path string, key config.Key) *config.Object {
	return s.files[path].objects.find(key)
}

// owner is the file whose version of an object counts.
func (s *store) owner(key config.Key) (path string, held bool) {
	for path := range s.owners.Get(key).All() {
		return path, true
	}
	return "", false
}

func newStore(root string) *store {
	return &store{
		root: root, files: map[string]*file{},
		touched: map[config.Key]*published{}, notes: feed.NewNotes[string](),
	}
}

func (s *store) name(path string) string { return nameBelow(s.root, path) }

// same says whether a file has the size, the time and the identity that it had when it was read.
func (s *store) same(path string, info fs.FileInfo) bool {
	f := s.files[path]
	return f != nil && f.read && f.stamp == stampOf(info)
}

// below walks the known files at or below a path.
func (s *store) below(path string) iter.Seq2[string, *file] {
	within := strings.TrimSuffix(path, "/") + "/"
	return func(yield func(string, *file) bool) {
		for known, f := range s.files {
			if known == path || strings.HasPrefix(known, within) {
				if !yield(known, f) {
					return
				}
			}
		}
	}
}

// putAll takes over readings, one after the other.
func (s *store) putAll(readings []reading) {
	objects := 0
	for _, r := range readings {
		objects += len(r.Objects)
	}
	if s.rooms == nil && objects > roomFor {
		s.rooms = &rooms{}
	}
	for _, r := range readings {
		s.put(r)
	}
}

// put takes over a reading: good objects as they are, the last good version of the others.
func (s *store) put(r reading) {
	if r.info == nil {
		s.remove(r.path)
		return
	}
	before := s.files[r.path]
	if r.unchanged {
		before.stamp = stampOf(r.info)
		return
	}
	f := s.rooms.file()
	f.stamp, f.hash, f.read = stampOf(r.info), r.hash, r.hash != 0
	if before == nil {
		before = &file{objects: s.memory.recall(s.name(r.path))}
	}
	holds := make(map[config.Key]*config.Object, len(r.Objects))
	kept := map[config.Key]bool{}
	keep := func(key config.Key) {
		if holds[key] != nil {
			return
		}
		if o := before.objects.find(key); o != nil && o.Refused == "" {
			holds[key], kept[key] = o, true
		}
	}
	if r.State != decode.Unreadable {
		for _, o := range r.Objects {
			if used := holds[o.Key]; used != nil {
				r.Findings = append(r.Findings, admission.Duplicate(o, *used))
			} else if shut, refused := r.refused[o.Key]; refused {
				if keep(o.Key); shut != nil && holds[o.Key] == nil {
					holds[o.Key] = shut
				}
			} else {
				holds[o.Key], r.path = s.rooms.object(r.path, s.name(r.path), o, len(r.Objects) == 1)
			}
		}
		for _, key := range r.Rejected {
			if keep(key); holds[key] == nil && r.refused[key] != nil {
				holds[key] = r.refused[key]
			}
		}
	}
	if r.State != decode.Whole {
		for _, o := range before.objects {
			keep(o.Key)
		}
	}
	if r.empty && len(kept) > 0 {
		r.Findings = append(r.Findings, saysNothing(s.name(r.path)))
	}
	f.objects = s.rooms.contents(contentsOf(holds))
	s.replace(r.path, before, f)
	s.memory.note(s.name(r.path), f.objects)
	s.notes.Set(r.path, sayKept(r.Findings, kept))
}

// remove forgets a file and what it held.
func (s *store) remove(path string) {
	if f := s.files[path]; f != nil {
		s.replace(path, f, nil)
		s.memory.note(s.name(path), nil)
	}
	s.notes.Set(path, nil)
}

// touch notes, before an object changes, what was handed on of it.
func (s *store) touch(key config.Key) {
	if _, already := s.touched[key]; already {
		return
	}
	s.touched[key] = nil
	if first, held := s.owner(key); held {
		s.touched[key] = &published{s.object(first, key).Hash}
	}
}

// replace moves the ownership of objects from one version of a file to the next; nil means there is none.
func (s *store) replace(path string, before, after *file) {
	for _, o := range before.objects {
		s.touch(o.Key)
	}
	if after != nil {
		for _, o := range after.objects {
			s.touch(o.Key)
		}
	}
	for _, o := range before.objects {
		key := o.Key
		if after != nil && after.objects.find(key) != nil {
			continue
		}
		owners := slices.Collect(s.owners.Get(key).All())
		if i := slices.Index(owners, path); i >= 0 {
			owners = slices.Delete(owners, i, i+1)
		}
		if len(owners) == 0 {
			s.owners.Delete(key)
		} else {
			s.owners.Put(key, config.TextsOf(owners))
		}
	}
	if after == nil {
		delete(s.files, path)
		return
	}
	s.files[path] = after
	for _, o := range after.objects {
		key := o.Key
		owners := slices.Collect(s.owners.Get(key).All())
		if i, owned := slices.BinarySearch(owners, path); !owned {
			s.owners.Put(key, config.TextsOf(slices.Insert(owners, i, path)))
		}
	}
}

// publish returns what changed since it was last called, in order of the keys, and the findings that are new.
func (s *store) publish() ([]config.Change, []admission.Finding) {
	var batch []config.Change
	for key, was := range s.touched {
		s.noteDuplicates(key)
		first, held := s.owner(key)
		if !held {
			if was != nil {
				batch = append(batch, config.Change{Key: key})
			}
			continue
		}
		if o := s.object(first, key); was == nil || was.hash != o.Hash {
			batch = append(batch, config.Change{Key: key, Object: o})
		}
	}
	s.touched = map[config.Key]*published{} // one that was full once stays large
	slices.SortFunc(batch, func(a, b config.Change) int { return a.Key.Compare(b.Key) })
	return batch, s.notes.Fresh()
}

// noteDuplicates reports the files whose version of an object another file's hides.
func (s *store) noteDuplicates(key config.Key) {
	owners := slices.Collect(s.owners.Get(key).All())
	var findings []admission.Finding
	for i := 1; i < len(owners); i++ {
		findings = append(findings, admission.Duplicate(*s.object(owners[i], key), *s.object(owners[0], key)))
	}
	s.notes.Set("\x00"+key.String(), findings)
}

// contents are a file's objects, by key. Most files hold one: a slice is a fraction of a map's size.
type contents []*config.Object

func contentsOf(objects map[config.Key]*config.Object) contents {
	c := make(contents, 0, len(objects))
	for _, o := range objects {
		c = append(c, o)
	}
	slices.SortFunc(c, func(a, b *config.Object) int { return a.Key.Compare(b.Key) })
	return c
}

// find gives the object with that key, nil when there is none.
func (c contents) find(key config.Key) *config.Object {
	i, found := slices.BinarySearchFunc(c, key, func(o *config.Object, k config.Key) int { return o.Key.Compare(k) })
	if !found {
		return nil
	}
	return c[i]
}

// stamp is what tells a file that was read from one that has changed since, or taken its place. It is kept for each file, and takes a tenth of what an fs.FileInfo does.
type stamp struct {
	size     int64
	modified int64 // in nanoseconds since 1970
	identity
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), modified: info.ModTime().UnixNano(), identity: identityOf(info)}
}
