package ordered

import "github.com/google/btree"

// degree is half of how many entries a node has at most.
const degree = 32

// Keyed is a map by keys of any type, so that looking something up by several things together needs no text made of them. It is
// immutable; any goroutine may read it. One goroutine at a time may begin edits of it.
type Keyed[K, V any] struct{ tree *btree.BTreeG[entry[K, V]] }

type entry[K, V any] struct {
	key   K
	value V
}

// NewKeyed makes an empty map; compare is the order of its keys.
func NewKeyed[K, V any](compare func(a, b K) int) Keyed[K, V] {
	return Keyed[K, V]{btree.NewG(degree, func(a, b entry[K, V]) bool { return compare(a.key, b.key) < 0 })}
}

// Get finds a value.
func (m Keyed[K, V]) Get(key K) (V, bool) {
	e, ok := m.tree.Get(entry[K, V]{key: key})
	return e.value, ok
}

// Len is the number of entries.
func (m Keyed[K, V]) Len() int { return m.tree.Len() }

// Walk goes through the entries in order of their keys until f says false.
func (m Keyed[K, V]) Walk(f func(K, V) bool) {
	m.tree.Ascend(func(e entry[K, V]) bool { return f(e.key, e.value) })
}

// From goes through those that do not come before a key until f says false.
func (m Keyed[K, V]) From(key K, f func(K, V) bool) {
	m.tree.AscendGreaterOrEqual(entry[K, V]{key: key}, func(e entry[K, V]) bool { return f(e.key, e.value) })
}

// Edit begins a new version.
func (m Keyed[K, V]) Edit() *KeyedEdit[K, V] { return &KeyedEdit[K, V]{m.clone()} }

// KeyedEdit is a version being made, as Edit is.
type KeyedEdit[K, V any] struct{ Keyed[K, V] }

// Put adds or replaces a value.
func (e *KeyedEdit[K, V]) Put(key K, value V) { e.put(key, value) }

// Delete removes a key.
func (e *KeyedEdit[K, V]) Delete(key K) { e.remove(key) }

// Done gives the finished version. The edit must not be used after it.
func (e *KeyedEdit[K, V]) Done() Keyed[K, V] { return e.Keyed }

func (m Keyed[K, V]) clone() Keyed[K, V] { return Keyed[K, V]{m.tree.Clone()} }

func (m Keyed[K, V]) put(key K, value V) { m.tree.ReplaceOrInsert(entry[K, V]{key, value}) }

func (m Keyed[K, V]) remove(key K) { m.tree.Delete(entry[K, V]{key: key}) }
