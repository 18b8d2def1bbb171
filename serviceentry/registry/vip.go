package registry

import (
	"encoding/binary"
	"net/netip"

	"github.com/cespare/xxhash/v2"

	"github.com/sallyport/sallyport/config/host"
)

// slots is how many hosts can have an address: all of the range but its first and last. Half of them are for the root namespace's
// hosts, whose addresses no other namespace may move, so that these move nobody's either.
const slots = 1<<16 - 2

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
// next. So the layout depends on the set of claims only, not on the order in which they came: any replica, and
// any restart, gives the same addresses.
type vips struct {
	at    map[uint32]claim
	slot  map[string]uint32
	held  [2]int          // how many slots of each half
	moved map[string]bool // hosts whose address changed since take was last called
	// turned are the slots that others had, or nobody, at some time since then.
	turned map[uint32]bool
}

func newVIPs() *vips {
	return &vips{at: map[uint32]claim{}, slot: map[string]uint32{}, moved: map[string]bool{}, turned: map[uint32]bool{}}
}

// add gives the claim a slot, moving claims that come after it. It does nothing when their half is full.
func (v *vips) add(c claim) {
	if at, ok := v.slot[c.host]; ok {
		if v.at[at] == c {
			return
		}
		v.remove(c.host)
	}
	if v.held[c.half()] >= slots/2 {
		return
	}
	v.held[c.half()]++
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

// remove frees the host's slot and lets those that were pushed behind it move up.
func (v *vips) remove(host string) {
	at, ok := v.slot[host]
	if !ok {
		return
	}
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
		v.add(c)
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
	v.held[c.half()]--
	v.turned[at] = true
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
