package kernel

import (
	"net/netip"

	"github.com/google/nftables"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

func setOf(s nodeguard.Set) *nftables.Set {
	set := &nftables.Set{Table: table, Name: s.Name, KeyType: nftables.TypeIPAddr, Interval: s.Interval, Counter: s.Counted}
	if s.IPv6 {
		set.KeyType = nftables.TypeIP6Addr
	}
	return set
}

// elements are the networks as nftables keeps them: an address is one element, an interval two, of which the second is the
// first address behind it. The last interval of all has no such address, and no end.
func elements(s nodeguard.Set, networks []netip.Prefix) []nftables.SetElement {
	var list []nftables.SetElement
	for _, n := range networks {
		list = append(list, nftables.SetElement{Key: n.Addr().AsSlice()})
		if !s.Interval {
			continue
		}
		if behind := last(n).Next(); behind.IsValid() {
			list = append(list, nftables.SetElement{Key: behind.AsSlice(), IntervalEnd: true})
		}
	}
	return list
}

// last is the last address of a network.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := p.Bits(); i < len(bytes)*8; i++ {
		bytes[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}
