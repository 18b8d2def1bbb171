package resource

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Packed are some resources of which nothing is kept but their bytes, together with those of others: no names, nor anything else that lies beside the bytes and takes
// more memory than they do when they are compressed. They are read out of these when somebody asks. The zero value has none.
type Packed struct {
	block    *block
	at, size uint32
}

// Keep packs resources; what others hold of them stays as it is. Of what it gives nothing may be read by other goroutines before Done.
func (p *Packer) Keep(list []*Resource) Packed {
	if len(list) == 0 {
		return Packed{}
	}
	if p.filling == nil {
		p.filling = &block{plain: p.room[:0]}
	}
	b := p.filling
	at := len(b.plain)
	for _, r := range list {
		b.plain = append(append(b.plain, byte(r.Type)), r.Wire()...)
	}
	if len(b.plain) >= packSize {
		size := len(b.plain)
		p.room, p.filling = b.plain, nil
		b.seal()
		return Packed{b, uint32(at), uint32(size - at)}
	}
	return Packed{b, uint32(at), uint32(len(b.plain) - at)}
}

// Empty says that there are none.
func (p Packed) Empty() bool { return p.block == nil }

// All are the resources, which lie where they are packed.
func (p Packed) All() []*Resource { return p.where(func(Type) bool { return true }) }

// Of are those of a type, likewise.
func (p Packed) Of(t Type) []*Resource { return p.where(func(of Type) bool { return of == t }) }

func (p Packed) where(counts func(Type) bool) (list []*Resource) {
	at := int(p.at)
	for rest := p.bytes(); len(rest) > 0; {
		e := entryOf(rest)
		if counts(e.t) {
			list = append(list, e.in(p.block, at))
		}
		rest, at = rest[1+e.size:], at+1+e.size
	}
	return list
}

// Find is one of them, which lies where it is packed.
func (p Packed) Find(t Type, name string) (*Resource, bool) {
	at := int(p.at)
	for rest := p.bytes(); len(rest) > 0; {
		e := entryOf(rest)
		if e.t == t && string(e.name) == name {
			return e.in(p.block, at), true
		}
		rest, at = rest[1+e.size:], at+1+e.size
	}
	return nil, false
}

// Copy are the resources, apart from what else is packed with them: for those that are read again and again.
func (p Packed) Copy() (list []*Resource) {
	if p.Empty() {
		return nil
	}
	own := Packed{block: &block{plain: slices.Clone(p.bytes())}, size: p.size}
	return own.All()
}

// Walk goes through the types, names and versions until f says false; what it is given must not be kept.
func (p Packed) Walk(f func(t Type, name, version []byte) bool) {
	for rest := p.bytes(); len(rest) > 0; {
		e := entryOf(rest)
		if !f(e.t, e.name, e.version) {
			return
		}
		rest = rest[1+e.size:]
	}
}

func (p Packed) bytes() []byte {
	if p.Empty() {
		return nil
	}
	return p.block.open()[p.at : p.at+p.size]
}

// Messages goes through the types, names and messages; what it gives must not be kept.
func (p Packed) Messages(f func(t Type, name, message []byte)) {
	eachEntry(p.bytes(), func(e entry, message []byte) { f(e.t, e.name, message) })
}

// entry is a resource among packed ones: a byte that says its type, and what sealed wrote.
type entry struct {
	t             Type
	size          int // of what sealed wrote
	name, version []byte
	value, end    int // where in that the message itself is
}

// in is the resource, of an entry that begins there in a block.
func (e entry) in(b *block, at int) *Resource {
	r := &Resource{Type: e.t, Name: string(e.name), Version: string(e.version)}
	r.kept.Store(&kept{block: b, at: uint32(at + 1), size: uint32(e.size), value: uint32(e.value), end: uint32(e.end)})
	return r
}

// eachEntry goes through entries and their messages.
func eachEntry(packed []byte, f func(e entry, message []byte)) {
	for len(packed) > 0 {
		e := entryOf(packed)
		f(e, packed[1+e.value:1+e.end])
		packed = packed[1+e.size:]
	}
}

func entryOf(packed []byte) entry {
	wire := packed[1:]
	e := entry{t: Type(packed[0])}
	whole, at := inside(wire, 0)
	e.size = at + whole
	inAny, at := inside(wire, at)
	afterAny := at + inAny
	url, at := inside(wire, at)
	size, at := inside(wire, at+url)
	e.value, e.end = at, at+size
	n, at := inside(wire, afterAny)
	e.name = wire[at : at+n]
	n, at = inside(wire, at+n)
	e.version = wire[at : at+n]
	return e
}

// inside reads the header of a field: how many bytes are in it, and where they begin.
func inside(wire []byte, at int) (size, begin int) {
	n, length := protowire.ConsumeVarint(wire[at+1:]) // the numbers take one byte with their type
	return int(n), at + 1 + length
}
