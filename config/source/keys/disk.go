package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Sets that were fetched are kept in a folder, a file each, so that one who starts while an issuer is away has its keys. What somebody wrote
// there who may write it is believed: it is as guarded as the keys of the mesh's authority are, which are beside it.

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

// keep writes a set, whole or not at all.
func (f *Fetcher) keep(s *set) {
	if f.Folder == "" {
		return
	}
	text, err := json.Marshal(kept{s.Key.Namespace, s.URI, s.Discover, s.fetched, s.text})
	if err == nil {
		err = replace(f.file(s.Source), text)
	}
	if err != nil {
		f.Log.Warn("keys for tokens are not kept, so after a restart they have to be fetched", "namespace", s.Key.Namespace, "from", s.URI, "error", err)
	}
}

func replace(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(file), "new-*")
	if err != nil {
		return err
	}
	_, err = t.Write(text)
	if err = errors.Join(err, t.Sync(), t.Close()); err == nil {
		err = os.Rename(t.Name(), file)
	}
	if err != nil {
		_ = os.Remove(t.Name())
	}
	return err
}

// restore gives a set that was kept and may still be trusted.
func (f *Fetcher) restore(s *set) {
	if f.Folder == "" {
		return
	}
	text, err := os.ReadFile(f.file(s.Source))
	if err != nil {
		return
	}
	var k kept
	now := time.Now()
	if json.Unmarshal(text, &k) != nil || k.Namespace != s.Key.Namespace || k.URI != s.URI || k.Discover != s.Discover ||
		k.Fetched.After(now) || now.Sub(k.Fetched) >= f.Oldest || f.Check(k.Keys) != nil {
		f.drop(s.Source)
		return
	}
	s.text, s.fetched = k.Keys, k.Fetched
}

// drop forgets a set that is wanted no more, or trusted no longer.
func (f *Fetcher) drop(s Source) {
	if f.Folder != "" {
		_ = os.Remove(f.file(s))
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
