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
func (m Keyed[K, V]) Edit() *KeyedEdit[K, V] { return &KeyedEdit[K, V]{m.clone(), 0} }

// KeyedEdit is a version being made, as Edit is.
type KeyedEdit[K, V any] struct {
	Keyed[K, V]
	puts int
}

// Put adds or replaces a value.
func (e *KeyedEdit[K, V]) Put(key K, value V) {
	e.puts++
	e.put(key, value)
}

// Delete removes a key.
func (e *KeyedEdit[K, V]) Delete(key K) { e.remove(key) }

// Done gives the finished version. The edit must not be used after it.
func (e *KeyedEdit[K, V]) Done() Keyed[K, V] { return e.filled(e.puts) }

// many is from how many entries on it counts how full nodes are.
const many = 16 * degree

// filled is the same map, whose nodes are full where so many puts have made most of it. What is put in order of its keys leaves each node half empty
// behind it, since that is where it is split: so every second entry comes first, and then each node has room for the others between them.
func (m Keyed[K, V]) filled(puts int) Keyed[K, V] {
	if m.Len() < many || puts < m.Len()/2 {
		return m
	}
	out := Keyed[K, V]{m.tree.Clone()}
	out.tree.Clear(false)
	for first := range 2 {
		i := first
		m.tree.Ascend(func(e entry[K, V]) bool {
			if i++; i%2 == 1 {
				out.tree.ReplaceOrInsert(e)
			}
			return true
		})
	}
	return out
}

func (m Keyed[K, V]) clone() Keyed[K, V] { return Keyed[K, V]{m.tree.Clone()} }

func (m Keyed[K, V]) put(key K, value V) { m.tree.ReplaceOrInsert(entry[K, V]{key, value}) }

func (m Keyed[K, V]) remove(key K) { m.tree.Delete(entry[K, V]{key: key}) }
