package state

import (
	"fmt"
	"iter"
	"os"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Table holds the accepted resources of one type. Its methods may be called from any goroutine.
type Table struct {
	url  string
	path string
	wake func() // the store's writer has something to do

	mu      sync.Mutex
	file    *os.File // nil until first written
	index   map[string]place
	pending map[string]*discoveryv3.Resource // not yet on disk; nil values are removals
	known   bool                             // Envoy accepted an answer for this type, even an empty one
	size    int64                            // of the file
	live    int64                            // bytes of it that the index points at
	scrub   bool                             // what is dead does not stay in the file
}

// place says where a resource's body is. While the name is in Table.pending, only the version counts.
type place struct {
	version string
	off     int64 // of the frame
	length  int   // of the body
}

// TypeURL is the type of the table's resources.
func (t *Table) TypeURL() string { return t.url }

// Known tells whether an answer was ever accepted for this type. A table may be known and empty.
func (t *Table) Known() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known
}

// Len counts the resources.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.index)
}

// Version gives the accepted version of a resource.
func (t *Table) Version(name string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.index[name]
	return at.version, ok
}

// Versions ranges over a copy of the names and their versions.
func (t *Table) Versions() iter.Seq2[string, string] {
	t.mu.Lock()
	defer t.mu.Unlock()
	type pair struct{ name, version string }
	all := make([]pair, 0, len(t.index))
	for name, at := range t.index {
		all = append(all, pair{name, at.version})
	}
	return func(yield func(string, string) bool) {
		for _, p := range all {
			if !yield(p.name, p.version) {
				return
			}
		}
	}
}

// Scrub has what is replaced or removed taken out of the file with the next write: what a table holds may be a key. A
// table that is scrubbed is rewritten with each change, so it should be small.
func (t *Table) Scrub() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scrub = true
}

// Put stores an accepted resource. The caller must not change it any more.
func (t *Table) Put(r *discoveryv3.Resource) {
	t.mu.Lock()
	t.known = true
	t.forget(r.GetName())
	t.index[r.GetName()] = place{version: r.GetVersion(), off: -1}
	t.pending[r.GetName()] = r
	t.mu.Unlock()
	t.wake()
}

// Remove forgets a resource.
func (t *Table) Remove(name string) {
	t.mu.Lock()
	if _, ok := t.index[name]; ok {
		t.forget(name)
		delete(t.index, name)
		t.pending[name] = nil
	}
	t.mu.Unlock()
	t.wake()
}

// Accepted notes that an answer for this type was accepted, which matters when it was empty.
func (t *Table) Accepted() {
	t.mu.Lock()
	was := t.known
	t.known = true
	t.mu.Unlock()
	if !was {
		t.wake()
	}
}

// forget takes the bytes of an overwritten body out of the account of live bytes. The lock is held.
func (t *Table) forget(name string) {
	if at, ok := t.index[name]; ok && at.off >= 0 {
		t.live -= frameHead + 1 + int64(at.length)
	}
}

// Resource gives the whole resource, read back from disk if need be. The caller must not change it.
func (t *Table) Resource(name string) (*discoveryv3.Resource, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.pending[name]; r != nil {
		return r, nil
	}
	at, ok := t.index[name]
	if !ok {
		return nil, fmt.Errorf("state of %s: no resource %q", t.url, name)
	}
	body, err := t.read(at)
	if err != nil {
		return nil, fmt.Errorf("state of %s: resource %q: %w", t.url, name, err)
	}
	r := new(discoveryv3.Resource)
	if err := proto.Unmarshal(body, r); err != nil {
		return nil, fmt.Errorf("state of %s: resource %q: %w", t.url, name, err)
	}
	return r, nil
}

// read gives a body from the file, checked against its sum. The lock is held.
func (t *Table) read(at place) ([]byte, error) {
	raw := make([]byte, frameHead+1+at.length)
	if _, err := t.file.ReadAt(raw, at.off); err != nil {
		return nil, err
	}
	_, body, err := newFrameReader(bytesReader(raw)).next()
	return body, err
}
