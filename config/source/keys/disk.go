package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/source/wholefile"
)

// Sets that were fetched are kept in a folder, a file each, so that one who starts while an issuer is away has its keys. What somebody wrote
// there who may write it is believed: it is as guarded as the keys of the mesh's authority are, which are beside it.

// mostKept is how many bytes are kept of all sets, and mostKeptOf of one namespace's: nobody's fill the disk, nor leave others no room.
const (
	mostKept   = 64 << 20
	mostKeptOf = 4 << 20
)

// disk is how much is kept: bytes of all, of each namespace, and of each set.
type disk struct {
	all   int
	of    map[string]int
	sizes map[config.Key]int
}

// fits says whether there is room for a set of a size, in place of what is kept of it.
func (d *disk) fits(key config.Key, size int) bool {
	more := size - d.sizes[key]
	return d.all+more <= mostKept && d.of[key.Namespace]+more <= mostKeptOf
}

// note takes down the size of what is kept of a set; 0 for nothing.
func (d *disk) note(key config.Key, size int) {
	more := size - d.sizes[key]
	d.all += more
	if d.of[key.Namespace] += more; d.of[key.Namespace] == 0 {
		delete(d.of, key.Namespace)
	}
	if d.sizes[key] = size; size == 0 {
		delete(d.sizes, key)
	}
}

// kept is a file's content.
type kept struct {
	Namespace, URI string
	Discover       bool
	Fetched        time.Time
	Keys           string
}

// file is where a set is kept: its name says nothing, and has no path in it, whatever the URI is.
func (f *Fetcher) file(s Source) string {
	text, err := json.Marshal([]string{s.Key.Namespace, s.Key.Name})
	if err != nil {
		panic("keys: texts do not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return filepath.Join(f.Folder, hex.EncodeToString(sum[:])+".json")
}

// keep writes a set, whole or not at all. One that there is no room for is not kept, and neither is what it was before.
func (f *Fetcher) keep(s *set) {
	if f.Folder == "" {
		return
	}
	text, err := json.Marshal(kept{s.Key.Namespace, s.URI, s.Discover, s.fetched, s.text})
	if err == nil && !f.disk.fits(s.Key, len(text)) {
		if !s.unkept {
			f.Log.Warn("keys for tokens are not kept, so after a restart they have to be fetched: they are too many",
				"namespace", s.Key.Namespace, "from", s.URI, "bytes", len(text), "most of a namespace", mostKeptOf, "most of all", mostKept)
		}
		s.unkept = true
		f.drop(s.Source)
		return
	}
	s.unkept = false
	if err == nil {
		err = wholefile.Replace(f.file(s.Source), text)
	}
	if err != nil {
		f.Log.Warn("keys for tokens are not kept, so after a restart they have to be fetched", "namespace", s.Key.Namespace, "from", s.URI, "error", err)
		return
	}
	f.disk.note(s.Key, len(text))
}

// restore gives a set that was kept and may still be trusted.
func (f *Fetcher) restore(s *set) {
	if f.Folder == "" {
		return
	}
	about, err := os.Stat(f.file(s.Source))
	if err != nil {
		return
	}
	if !f.disk.fits(s.Key, int(about.Size())) {
		f.drop(s.Source)
		return
	}
	text, err := os.ReadFile(f.file(s.Source))
	if err != nil {
		return
	}
	var k kept
	now := time.Now()
	if json.Unmarshal(text, &k) != nil || k.Namespace != s.Key.Namespace || k.URI != s.URI || k.Discover != s.Discover ||
		k.Fetched.After(now) || now.Sub(k.Fetched) >= f.Oldest {
		f.drop(s.Source)
		return
	}
	keys, err := f.Read(k.Keys)
	if err != nil {
		f.drop(s.Source)
		return
	}
	s.text, s.fetched = keys, k.Fetched
	f.disk.note(s.Key, len(text))
}

// drop forgets a set that is wanted no more, or trusted no longer.
func (f *Fetcher) drop(s Source) {
	if f.Folder != "" {
		_ = os.Remove(f.file(s))
		f.disk.note(s.Key, 0)
	}
}

// tidy removes what is there and nobody wants, of an earlier run.
func (f *Fetcher) tidy(sets []Wanted) {
	wanted := map[string]bool{}
	for _, w := range sets {
		wanted[filepath.Base(f.file(w.Source))] = true
	}
	all, err := os.ReadDir(f.Folder)
	if f.Folder == "" || err != nil {
		return
	}
	for _, e := range all {
		if !wanted[e.Name()] {
			_ = os.Remove(filepath.Join(f.Folder, e.Name()))
		}
	}
}
