package registry

import (
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// setListenerSet takes one in, or out: the Gateways that it is or was for are made again, and its routes.
func (b *batch) setListenerSet(was, is *config.Object) {
	b.next.sets = maps.Clone(b.next.sets)
	if b.next.sets == nil {
		b.next.sets = map[config.Key][]*config.Object{}
	}
	for _, o := range [...]*config.Object{was, is} {
		if o == nil {
			continue
		}
		b.noteUses(o, o == is)
		maps.Copy(b.remade, b.index.gatewayAPI.parents[o.Key])
		parent, of := gatewayapi.SetParent(o)
		if !of {
			continue
		}
		b.remade[parent] = true
		list := slices.DeleteFunc(slices.Clone(b.next.sets[parent]), func(x *config.Object) bool { return x.Key == o.Key })
		if o == is {
			at, _ := slices.BinarySearchFunc(list, o, olderObject)
			list = slices.Insert(list, at, o)
		}
		if b.next.sets[parent] = list; len(list) == 0 {
			delete(b.next.sets, parent)
		}
	}
}

// olderObject puts the oldest first, then by namespace and name.
func olderObject(x, y *config.Object) int {
	if c := x.Created.Compare(y.Created); c != 0 {
		return c
	}
	return x.Key.Compare(y.Key)
}

// remakeParents puts Gateways in the place of their ListenerSets, of which something may be otherwise.
func (b *batch) remakeParents() {
	for key := range b.remade {
		if key.Kind != config.KindListenerSet {
			continue
		}
		delete(b.remade, key)
		b.retold[key] = true
		if o := b.objects.Get(key); o != nil {
			if parent, of := gatewayapi.SetParent(o); of {
				b.remade[parent] = true
			}
		}
	}
}
