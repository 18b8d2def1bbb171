package registry

import (
	"encoding/binary"
	"net/netip"

	"github.com/cespare/xxhash/v2"
	"github.com/google/btree"

	"github.com/sallyport/sallyport/config/host"
)

// slots are the addresses that hosts can have: all of the range but its first and last. Half of them are for the root namespace's
// hosts, whose addresses no other namespace may move, so that these move nobody's either.
const slots = 1<<16 - 2

// most is how many hosts of a half have one. The fuller a table is the more of it moves with each change: with a sixteenth of it free
// a change looks at some 130 slots, and at all of them in one that is full.
const most = slots / 2 * 15 / 16

// claim is a host that wants an address. The older one comes first; then the name. So a newer host moves nobody's address.
type claim struct {
	host    string
	root    bool
	created int64
}

// add counts a registration in: the oldest gives the age.
func (c *claim) add(s *Service, more bool) {
	created := int64(0)
	if !s.Created.IsZero() {
		created = s.Created.UnixNano()
	}
	if !more || created < c.created {
		c.created = created
	}
}

func (c claim) before(o claim) bool {
	if c.created != o.created {
		return c.created < o.created
	}
	return c.host < o.host
}

// half is the index of the half that the claim is for.
func (c claim) half() uint32 {
	if c.root {
		return 1
	}
	return 0
}

func (c claim) home() uint32 { return c.half()*slots/2 + uint32(xxhash.Sum64String(c.host)%(slots/2)) }

// after is the slot after another one, in the claim's half.
func (c claim) after(at uint32) uint32 {
	first := c.half() * slots / 2
	return first + (at-first+1)%(slots/2)
}

// vips hands out one address a host. Each half is an ordered hash table with linear probing (Amble and Knuth, 1974):
// a claim is at its home slot or, where that and those after it are held by claims that come before it, at the
// next. Where there are more claims than addresses the first have them, and the rest wait. So who has which depends on the set of claims
// only, not on the order in which they came: any replica, and any restart, gives the same addresses.
type vips struct {
	at     map[uint32]claim
	slot   map[string]uint32
	halves [2]half
	moved  map[string]bool // hosts whose address changed since take was last called
	// turned are the slots that others had, or nobody, at some time since then.
	turned map[uint32]bool
}

// half is who has a slot of it, and who would.
type half struct {
	held int // how many have one
	// placed are those in their order, and waiting those that come after them, once there are more than can have one; nil before.
	placed, waiting *btree.BTreeG[claim]
	waits           map[string]claim // by host
}

func newVIPs() *vips {
	return &vips{at: map[uint32]claim{}, slot: map[string]uint32{}, moved: map[string]bool{}, turned: map[uint32]bool{}}
}

// add takes a claim: it has a slot, or waits for one where there are enough that come before it.
func (v *vips) add(c claim) {
	if at, ok := v.slot[c.host]; ok && v.at[at] == c || v.halves[c.half()].waits[c.host] == c {
		return
	}
	v.remove(c.host)
	h := &v.halves[c.half()]
	if h.held >= most {
		h.order(v)
		last, _ := h.placed.Max()
		if !c.before(last) {
			h.wait(c)
			return
		}
		v.vacate(last.host)
		h.wait(last)
	}
	v.place(c)
}

// place gives a claim a slot, moving claims that come after it. There is room.
func (v *vips) place(c claim) {
	h := &v.halves[c.half()]
	h.held++
	if h.placed != nil {
		h.placed.ReplaceOrInsert(c)
	}
	for at := c.home(); ; at = c.after(at) {
		held, taken := v.at[at]
		if taken && held.before(c) {
			continue
		}
		v.at[at], v.slot[c.host], v.moved[c.host], v.turned[at] = c, at, true, true
		if !taken {
			return
		}
		c = held
	}
}

// remove takes the host's claim out. Who waits first has a slot then.
func (v *vips) remove(host string) {
	at, ok := v.slot[host]
	if !ok {
		for i := range v.halves {
			v.halves[i].leave(host)
		}
		return
	}
	h := &v.halves[v.at[at].half()]
	v.vacate(host)
	if h.waiting != nil && h.waiting.Len() > 0 {
		first, _ := h.waiting.Min()
		h.leave(first.host)
		v.place(first)
	}
}

// vacate frees the host's slot and lets those that were pushed behind it move up.
func (v *vips) vacate(host string) {
	at := v.slot[host]
	gone := v.at[at]
	v.free(at)
	v.moved[host] = true
	var behind []claim
	var before []uint32
	for next := gone.after(at); ; next = gone.after(next) {
		c, taken := v.at[next]
		if !taken {
			break
		}
		behind, before = append(behind, c), append(before, next)
		v.free(next)
	}
	already := make([]bool, len(behind))
	for i, c := range behind {
		already[i] = v.moved[c.host]
	}
	for _, c := range behind {
		v.place(c)
	}
	for i, c := range behind {
		if v.slot[c.host] == before[i] && !already[i] {
			delete(v.moved, c.host)
		}
	}
}

func (v *vips) free(at uint32) {
	c := v.at[at]
	delete(v.at, at)
	delete(v.slot, c.host)
	h := &v.halves[c.half()]
	if h.held--; h.placed != nil {
		h.placed.Delete(c)
	}
	v.turned[at] = true
}

// order begins to keep who comes last, and who waits.
func (h *half) order(v *vips) {
	if h.placed != nil {
		return
	}
	h.placed, h.waiting, h.waits = btree.NewG(32, claim.before), btree.NewG(32, claim.before), map[string]claim{}
	for _, c := range v.at {
		if h == &v.halves[c.half()] {
			h.placed.ReplaceOrInsert(c)
		}
	}
}

func (h *half) wait(c claim) {
	h.waiting.ReplaceOrInsert(c)
	h.waits[c.host] = c
}

func (h *half) leave(host string) {
	if c, ok := h.waits[host]; ok {
		h.waiting.Delete(c)
		delete(h.waits, host)
	}
}

// take gives the hosts whose address changed, and the slots that others have, or may have; and forgets both.
func (v *vips) take() (moved map[string]bool, turned map[uint32]bool) {
	moved, turned = v.moved, v.turned
	v.moved, v.turned = map[string]bool{}, map[uint32]bool{}
	return moved, turned
}

// holdsAny says whether somebody has one of these slots.
func (v *vips) holdsAny(slots map[uint32]bool) bool {
	for at := range slots {
		if _, held := v.at[at]; held {
			return true
		}
	}
	return false
}

// lookup gives where the host's addresses are, as Service.MadeUp does.
func (v *vips) lookup(name string) uint16 {
	at, ok := v.slot[name]
	if !ok {
		return 0
	}
	return offsetOf(at)
}

// offsetOf is Service.MadeUp of a slot: the first address of a range is nobody's.
func offsetOf(slot uint32) uint16 { return uint16(slot + 1) }

// addressesAt gives the addresses there; of 0 the zero Addr.
func addressesAt(offset uint16) (v4, v6 netip.Addr) {
	if offset == 0 {
		return netip.Addr{}, netip.Addr{}
	}
	b4 := host.MadeUp4.Addr().As4()
	binary.BigEndian.PutUint16(b4[2:], offset)
	b6 := host.MadeUp6.Addr().As16()
	binary.BigEndian.PutUint16(b6[14:], offset)
	return netip.AddrFrom4(b4), netip.AddrFrom16(b6)
}
