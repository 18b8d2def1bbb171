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

// claim is a host that wants an address, and in which half.
type claim struct {
	claimant
	root bool
}

// claimant is what is kept of a claim, where its half is known. The older one comes first; then the name. So a newer host moves nobody's address.
type claimant struct {
	host    string
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

func (c claimant) before(o claimant) bool {
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
// only, not on the order in which they came: any replica, and any restart, gives the same addresses. Where a host is, is found as the
// table is made: there is a table for each namespace, and a map by hosts beside it would be as large.
type vips struct {
	at     map[uint32]claimant
	halves [2]half
	moved  map[string]bool // hosts whose address changed since take was last called
	// turned are the slots that others had, or nobody, at some time since then.
	turned map[uint32]bool
}

// half is who has a slot of it, and who would.
type half struct {
	held int // how many have one
	// placed are those in their order, and waiting those that come after them, once there are more than can have one; nil before.
	placed, waiting *btree.BTreeG[claimant]
	waits           map[string]int64 // by host: when it was created
}

func newVIPs() *vips {
	return &vips{at: map[uint32]claimant{}, moved: map[string]bool{}, turned: map[uint32]bool{}}
}

// claimAt is whose a slot is.
func (v *vips) claimAt(at uint32) (c claim, taken bool) {
	c.claimant, taken = v.at[at]
	c.root = at >= slots/2
	return c, taken
}

// slot is where a host is.
func (v *vips) slot(host string) (at uint32, has bool) {
	for i := range v.halves {
		if _, waits := v.halves[i].waits[host]; waits {
			return 0, false
		}
	}
	for _, root := range [...]bool{false, true} {
		c := claim{claimant{host: host}, root}
		if v.halves[c.half()].held == 0 {
			continue
		}
		for at := c.home(); ; at = c.after(at) {
			held, taken := v.at[at]
			if !taken {
				break
			}
			if held.host == host {
				return at, true
			}
		}
	}
	return 0, false
}

// add takes a claim: it has a slot, or waits for one where there are enough that come before it.
func (v *vips) add(c claim) {
	h := &v.halves[c.half()]
	if created, waits := h.waits[c.host]; waits && created == c.created {
		return
	}
	if at, ok := v.slot(c.host); ok {
		if held, _ := v.claimAt(at); held == c {
			return
		}
		v.removeAt(at)
	} else {
		v.leave(c.host)
	}
	if h.held >= most {
		h.order(v)
		last, _ := h.placed.Max()
		if !c.before(last) {
			h.wait(c.claimant)
			return
		}
		at, _ := v.slot(last.host)
		v.vacate(at)
		h.wait(last)
	}
	v.place(c)
}

// place gives a claim a slot, moving claims that come after it. There is room.
func (v *vips) place(c claim) {
	h := &v.halves[c.half()]
	h.held++
	if h.placed != nil {
		h.placed.ReplaceOrInsert(c.claimant)
	}
	for at := c.home(); ; at = c.after(at) {
		held, taken := v.claimAt(at)
		if taken && held.before(c.claimant) {
			continue
		}
		v.at[at], v.moved[c.host], v.turned[at] = c.claimant, true, true
		if !taken {
			return
		}
		c = held
	}
}

// remove takes the host's claim out. Who waits first has a slot then.
func (v *vips) remove(host string) {
	if at, ok := v.slot(host); ok {
		v.removeAt(at)
	} else {
		v.leave(host)
	}
}

// leave takes out what waits.
func (v *vips) leave(host string) {
	for i := range v.halves {
		v.halves[i].leave(host)
	}
}

func (v *vips) removeAt(at uint32) {
	c := v.vacate(at)
	if h := &v.halves[c.half()]; h.waiting != nil && h.waiting.Len() > 0 {
		first, _ := h.waiting.Min()
		h.leave(first.host)
		v.place(claim{first, c.root})
	}
}

// vacate frees a slot and lets those that were pushed behind it move up. It gives the claim that had it.
func (v *vips) vacate(at uint32) claim {
	gone := v.free(at)
	v.moved[gone.host] = true
	var behind []claim
	var before []uint32
	for next := gone.after(at); ; next = gone.after(next) {
		if _, taken := v.at[next]; !taken {
			break
		}
		behind, before = append(behind, v.free(next)), append(before, next)
	}
	already := make([]bool, len(behind))
	for i, c := range behind {
		already[i] = v.moved[c.host]
	}
	for _, c := range behind {
		v.place(c)
	}
	for i, c := range behind {
		if v.at[before[i]].host == c.host && !already[i] {
			delete(v.moved, c.host)
		}
	}
	return gone
}

// free makes a slot nobody's, and gives the claim that had it.
func (v *vips) free(at uint32) claim {
	c, _ := v.claimAt(at)
	delete(v.at, at)
	h := &v.halves[c.half()]
	if h.held--; h.placed != nil {
		h.placed.Delete(c.claimant)
	}
	v.turned[at] = true
	return c
}

// order begins to keep who comes last, and who waits.
func (h *half) order(v *vips) {
	if h.placed != nil {
		return
	}
	h.placed, h.waiting, h.waits = btree.NewG(32, claimant.before), btree.NewG(32, claimant.before), map[string]int64{}
	for at := range v.at {
		if c, _ := v.claimAt(at); h == &v.halves[c.half()] {
			h.placed.ReplaceOrInsert(c.claimant)
		}
	}
}

func (h *half) wait(c claimant) {
	h.waiting.ReplaceOrInsert(c)
	h.waits[c.host] = c.created
}

func (h *half) leave(host string) {
	if created, ok := h.waits[host]; ok {
		h.waiting.Delete(claimant{host, created})
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
	at, ok := v.slot(name)
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
