// Package ordered is a map by text, or by other keys, in order of its keys, whose versions share what did not change.
//
// In: keys and values. Out: immutable maps. It wraps a B-tree with copy-on-write: beside a radix tree of the same
// keys, which copies as little, it takes a tenth of the memory. It must not import anything of ours.
package ordered

import (
	"strings"

	"github.com/google/btree"
)

// Map is immutable; any goroutine may read it. One goroutine at a time may begin edits of it.
type Map[V any] struct{ Keyed[string, V] }

// New makes an empty map. Texts are compared where the tree asks, since that is most of what finding one costs.
func New[V any]() Map[V] {
	return Map[V]{Keyed[string, V]{btree.NewG(degree, func(a, b entry[string, V]) bool { return a.key < b.key })}}
}

// WalkPrefix goes through those whose keys begin with the prefix.
func (m Map[V]) WalkPrefix(prefix string, f func(string, V) bool) {
	m.From(prefix, func(key string, v V) bool { return strings.HasPrefix(key, prefix) && f(key, v) })
}

// Edit begins a new version.
func (m Map[V]) Edit() *Edit[V] { return &Edit[V]{Map[V]{m.clone()}, 0} }

// Edit is a version being made. It is for one goroutine. What it reads includes what was put so far; while it is
// walked it must not be changed.
type Edit[V any] struct {
	Map[V]
	puts int
}

// Put adds or replaces a value.
func (e *Edit[V]) Put(key string, value V) {
	e.puts++
	e.put(key, value)
}

// Delete removes a key.
func (e *Edit[V]) Delete(key string) { e.remove(key) }

// Done gives the finished version. The edit must not be used after it.
func (e *Edit[V]) Done() Map[V] { return Map[V]{e.filled(e.puts)} }
