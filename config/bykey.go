package config

import "iter"

// ByKey is a map by the keys of objects, for those that know of each object: most keys differ in their names alone, so a place takes a third of what it does in a map by
// keys as they are. The zero value is an empty one.
type ByKey[V any] struct{ groups map[group]map[string]V }

// group is what many keys have together.
type group struct {
	kind      Kind
	namespace string
	cluster   string
}

func groupOf(k Key) group { return group{k.Kind, k.Namespace, k.Cluster} }

// Get finds a value; the zero V where there is none.
func (m *ByKey[V]) Get(k Key) V { return m.groups[groupOf(k)][k.Name] }

// Put adds or replaces one.
func (m *ByKey[V]) Put(k Key, v V) {
	if m.groups == nil {
		m.groups = map[group]map[string]V{}
	}
	g := groupOf(k)
	if m.groups[g] == nil {
		m.groups[g] = map[string]V{}
	}
	m.groups[g][k.Name] = v
}

// Delete takes one out.
func (m *ByKey[V]) Delete(k Key) {
	g := groupOf(k)
	in := m.groups[g]
	if delete(in, k.Name); len(in) == 0 {
		delete(m.groups, g)
	}
}

// Keys goes through the keys, in no order.
func (m *ByKey[V]) Keys() iter.Seq[Key] {
	return func(yield func(Key) bool) {
		for key := range m.All() {
			if !yield(key) {
				return
			}
		}
	}
}

// All goes through the keys and values, in no order.
func (m *ByKey[V]) All() iter.Seq2[Key, V] {
	return m.where(func(group) bool { return true })
}

// Of goes through those of a kind, in no order.
func (m *ByKey[V]) Of(kind Kind) iter.Seq2[Key, V] {
	return m.where(func(g group) bool { return g.kind == kind })
}

// In goes through those of a kind in a namespace, of all clusters, in no order.
func (m *ByKey[V]) In(kind Kind, namespace string) iter.Seq2[Key, V] {
	return m.where(func(g group) bool { return g.kind == kind && g.namespace == namespace })
}

func (m *ByKey[V]) where(counts func(group) bool) iter.Seq2[Key, V] {
	return func(yield func(Key, V) bool) {
		for g, in := range m.groups {
			if !counts(g) {
				continue
			}
			for name, v := range in {
				if !yield(Key{Kind: g.kind, Namespace: g.namespace, Name: name, Cluster: g.cluster}, v) {
					return
				}
			}
		}
	}
}
