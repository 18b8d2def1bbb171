package ordered

import "iter"

// Layer is a map that is kept as what differs from another one, which lies under it: many maps that are nearly the same so share
// all the rest, also when that changes. Like a Map it is immutable. The zero V is no value: it says that a key of the map
// under it is not there.
type Layer[V comparable] struct {
	under *Layer[V]
	own   Map[V]
	same  func(a, b V) bool
	sifts bool   // layers over it have a sieve
	sieve *sieve // nil where own has few keys
}

// NewLayer is an empty map with nothing under it. Values that are the same may stand for each other.
func NewLayer[V comparable](same func(a, b V) bool) Layer[V] {
	return Layer[V]{own: New[V](), same: same}
}

// Sifted is one over which layers tell quickly of most keys that they say nothing of them.
func (l Layer[V]) Sifted() Layer[V] { l.sifts = true; return l }

// Over is a map that is the same as another one.
func (l Layer[V]) Over() Layer[V] {
	return Layer[V]{under: &l, own: New[V](), same: l.same, sifts: l.sifts}
}

// Alone says that there is nothing under it.
func (l Layer[V]) Alone() bool { return l.under == nil }

// Own goes through the keys that are not as in the map under it; through all of them without one.
func (l Layer[V]) Own() iter.Seq[string] {
	return func(yield func(string) bool) { l.own.Walk(func(key string, _ V) bool { return yield(key) }) }
}

// Keys goes through all of them, in order.
func (l Layer[V]) Keys() iter.Seq[string] {
	return func(yield func(string) bool) { l.Walk(func(key string, _ V) bool { return yield(key) }) }
}

// Get finds a value.
func (l Layer[V]) Get(key string) (V, bool) {
	var none V
	v, ok := l.Mine(key)
	if !ok && !l.Alone() {
		v, ok = l.under.Get(key)
	}
	return v, ok && v != none
}

// Len is the number of entries.
func (l Layer[V]) Len() int {
	if l.Alone() {
		return l.own.Len()
	}
	n := l.under.Len()
	l.own.Walk(func(key string, v V) bool {
		var none V
		_, below := l.under.Get(key)
		switch {
		case v != none && !below:
			n++
		case v == none && below:
			n--
		}
		return true
	})
	return n
}

// Walk goes through the entries in order of their keys until f says false.
func (l Layer[V]) Walk(f func(string, V) bool) { l.WalkPrefix("", f) }

// WalkPrefix goes through those whose keys begin with the prefix.
func (l Layer[V]) WalkPrefix(prefix string, f func(string, V) bool) {
	if l.Alone() {
		l.own.WalkPrefix(prefix, f)
		return
	}
	var own []entry[string, V]
	l.own.WalkPrefix(prefix, func(key string, v V) bool { own = append(own, entry[string, V]{key, v}); return true })
	var none V
	on := true
	give := func(e entry[string, V]) { on = on && (e.value == none || f(e.key, e.value)) }
	l.under.WalkPrefix(prefix, func(key string, v V) bool {
		for on && len(own) > 0 && own[0].key < key {
			give(own[0])
			own = own[1:]
		}
		if len(own) > 0 && own[0].key == key {
			v, own = own[0].value, own[1:]
		}
		give(entry[string, V]{key, v})
		return on
	})
	for on && len(own) > 0 {
		give(own[0])
		own = own[1:]
	}
}

// Edit begins a new version. Nothing is copied for one in which nothing is put or deleted.
func (l Layer[V]) Edit() *LayerEdit[V] { return &LayerEdit[V]{Layer: l} }

// EditOver begins a new version over a later version of the map under it, that differs from the one before in these keys at
// most. What the layer says of them stays as it was.
func (l Layer[V]) EditOver(under Layer[V], keys []string) *LayerEdit[V] {
	e := l.EditOnto(under)
	for _, key := range keys {
		if v, ok := l.Get(key); ok {
			e.Put(key, v)
		} else {
			e.Delete(key)
		}
	}
	return e
}

// EditOnto begins a new version over a later version of the map under it, which it follows where it says nothing itself.
func (l Layer[V]) EditOnto(under Layer[V]) *LayerEdit[V] {
	e := l.Edit()
	if l.under == nil || l.under.own != under.own || l.under.under != under.under {
		e.under = &under
	}
	return e
}

// Mine finds what the layer itself says of a key; the zero V where it says that it is not there.
func (l Layer[V]) Mine(key string) (V, bool) {
	if l.sieve != nil && !l.sieve.may(key) {
		var none V
		return none, false
	}
	return l.own.Get(key)
}

// Under is the map under it; false without one.
func (l Layer[V]) Under() (Layer[V], bool) {
	if l.Alone() {
		return Layer[V]{}, false
	}
	return *l.under, true
}

// Says whether the layer itself says something of a key.
func (l Layer[V]) Says(key string) bool {
	_, ok := l.Mine(key)
	return ok
}

// LayerEdit is a version being made, as Edit is.
type LayerEdit[V comparable] struct {
	Layer[V]
	begun bool // the layer's own map is the edit's alone
	puts  int
}

func (e *LayerEdit[V]) begin() {
	if !e.begun {
		e.begun, e.own = true, Map[V]{e.own.clone()}
	}
}

func (e *LayerEdit[V]) put(key string, value V) {
	e.begin()
	e.puts++
	e.own.put(key, value)
	if e.sifts && !e.Alone() {
		e.sift(key)
	}
}

// sift adds a key to the sieve.
func (e *LayerEdit[V]) sift(key string) {
	switch {
	case e.sieve != nil && !e.sieve.full():
		e.sieve.add(key)
	case e.own.Len() > fewSifted:
		e.sieve = newSieve(e.own.Len())
		e.own.Walk(func(key string, _ V) bool { e.sieve.add(key); return true })
	default:
		e.sieve = nil
	}
}

func (e *LayerEdit[V]) remove(key string) {
	if _, there := e.own.Get(key); there {
		e.begin()
		e.own.remove(key)
	}
}

// Put adds or replaces a value.
func (e *LayerEdit[V]) Put(key string, value V) {
	if !e.Alone() {
		if below, ok := e.under.Get(key); ok && e.same(below, value) {
			e.remove(key)
			return
		}
	}
	e.put(key, value)
}

// Delete removes a key.
func (e *LayerEdit[V]) Delete(key string) {
	if !e.Alone() {
		if _, below := e.under.Get(key); below {
			var none V
			e.put(key, none)
			return
		}
	}
	e.remove(key)
}

// Follow has the layer say nothing of a key, which is as in the map under it then.
func (e *LayerEdit[V]) Follow(key string) { e.remove(key) }

// Done gives the finished version. The edit must not be used after it.
func (e *LayerEdit[V]) Done() Layer[V] {
	e.own = Map[V]{e.own.filled(e.puts)}
	return e.Layer
}
