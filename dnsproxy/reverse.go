package dnsproxy

import (
	"net/netip"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

var (
	reverse4 = string(packet.AppendName(nil, "in-addr.arpa"))
	reverse6 = string(packet.AppendName(nil, "ip6.arpa"))
)

// reversed is the address whose reverse name a lower-case name in wire format is (RFC 1035 section 3.5, RFC 3596 section 2.5).
func reversed(wire []byte) (netip.Addr, bool) {
	if labels, ok := cutSuffix(wire, reverse4); ok {
		return reversed4(labels)
	}
	if labels, ok := cutSuffix(wire, reverse6); ok {
		return reversed6(labels)
	}
	return netip.Addr{}, false
}

func cutSuffix(wire []byte, suffix string) ([]byte, bool) {
	size := len(wire) - len(suffix)
	if size < 0 || string(wire[size:]) != suffix {
		return nil, false
	}
	return wire[:size], true
}

// reversed4 reads four labels, decimal numbers without zeros in front, of which the last is the address's first byte.
func reversed4(labels []byte) (netip.Addr, bool) {
	var addr [4]byte
	for i := range addr {
		if len(labels) == 0 {
			return netip.Addr{}, false
		}
		size := int(labels[0])
		if size < 1 || size > 3 || len(labels) <= size || labels[1] == '0' && size > 1 {
			return netip.Addr{}, false
		}
		value := 0
		for _, digit := range labels[1 : 1+size] {
			if digit < '0' || digit > '9' {
				return netip.Addr{}, false
			}
			value = value*10 + int(digit-'0')
		}
		if value > 255 {
			return netip.Addr{}, false
		}
		addr[3-i] = byte(value)
		labels = labels[1+size:]
	}
	return netip.AddrFrom4(addr), len(labels) == 0
}

// reversed6 reads 32 labels of one hexadecimal digit, of which the last is the address's first one.
func reversed6(labels []byte) (netip.Addr, bool) {
	var addr [16]byte
	if len(labels) != 4*len(addr) {
		return netip.Addr{}, false
	}
	for i := range 2 * len(addr) {
		size, digit := labels[2*i], labels[2*i+1]
		var value byte
		switch {
		case size != 1:
			return netip.Addr{}, false
		case digit >= '0' && digit <= '9':
			value = digit - '0'
		case digit >= 'a' && digit <= 'f':
			value = digit - 'a' + 10
		default:
			return netip.Addr{}, false
		}
		addr[15-i/2] |= value << (4 * (i % 2))
	}
	return netip.AddrFrom16(addr), true
}
