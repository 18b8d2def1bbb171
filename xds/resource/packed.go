package resource

import (
	"slices"
	"sync"
	"unsafe"
	"weak"

	"github.com/sallyport/sallyport/xds/compress"
)

// kept is where sealed bytes are: in a block of their own, or, once they are packed, in one with others.
type kept struct {
	block      *block
	at, size   uint32 // in the block
	value, end uint32 // where in these bytes the message itself is
}

func (k *kept) bytes() []byte { return k.block.open()[k.at : k.at+k.size : k.at+k.size] }

// block is the bytes of resources: as they are, of one, or compressed, of several. Opened, these stay so for as long as anybody has some of them, or the
// garbage collector has not come: who reads one of them mostly goes on to the next one, and all who are sent it share it.
type block struct {
	plain []byte // nil where they are compressed

	frame  []byte
	size   int  // of what it holds
	bare   bool // entries, without their versions, which compress least and are made of the messages again
	mu     sync.Mutex
	opened weak.Pointer[byte] // the first one, for as long as anybody reads any
}

func (b *block) packed() bool { return b.frame != nil }

func (b *block) open() []byte {
	if !b.packed() {
		return b.plain
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if first := b.opened.Value(); first != nil {
		return unsafe.Slice(first, b.size) //nolint:gosec // as many as Open gave
	}
	whole := compress.Open(b.frame, b.size)
	if b.bare {
		eachEntry(whole, func(e entry, message []byte) { compress.PutVersion(e.version, message) })
	}
	b.opened = weak.Make(&whole[0])
	return whole
}

// packSize is about how many bytes are compressed together: those of some hundred rows, which are alike.
const packSize = 64 << 10

// Packer compresses the bytes of resources where they are kept: of a mesh's hosts they take a tenth of the memory then, and their readers notice nothing
// but the time. It is for the many that are made at once. A block lasts as long as any of what is in it: what changes later, one by one, is
// better kept by itself, so that no more blocks are held than were once needed for all. It is for one goroutine; readers may be others.
type Packer struct {
	list    []*Resource
	size    int
	filling *block // of what is kept by Keep
	room    []byte // for what is filled next
}

// Add takes resources that are made one after the other. Keys are left as they are, and what is packed already.
func (p *Packer) Add(list []*Resource) {
	for _, r := range list {
		k := r.kept.Load()
		if k.block.packed() || r.Type == Secret {
			continue
		}
		p.list, p.size = append(p.list, r), p.size+int(k.size)
	}
	if p.size >= packSize {
		p.pack()
	}
}

// Done packs what is left, if it is worth it.
func (p *Packer) Done() {
	if p.size >= packSize/8 {
		p.pack()
	}
	p.list, p.size = nil, 0
	if b := p.filling; b != nil {
		p.room, p.filling = b.plain, nil
		if len(b.plain) >= packSize/8 {
			b.seal()
		} else {
			b.plain = slices.Clone(b.plain)
		}
	}
}

// seal compresses a block's bytes. Nobody else may have any of them yet.
func (b *block) seal() {
	eachEntry(b.plain, func(e entry, _ []byte) { clear(e.version) })
	b.bare = true
	b.frame, b.size = compress.Frame(slices.Values([][]byte{b.plain})), len(b.plain)
	b.plain = nil
}

func (p *Packer) pack() {
	b := &block{size: p.size, frame: compress.Frame(func(yield func([]byte) bool) {
		for _, r := range p.list {
			if !yield(r.Wire()) {
				return
			}
		}
	})}
	at := uint32(0)
	for _, r := range p.list {
		k := *r.kept.Load()
		k.block, k.at = b, at
		r.kept.Store(&k)
		at += k.size
	}
	clear(p.list)
	p.list, p.size = p.list[:0], 0
}
