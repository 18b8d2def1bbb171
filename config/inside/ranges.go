package inside

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
)

// inside lists what is not on the public internet, from IANA's special-purpose address registries (RFC 6890), and the
// addresses outside of them at which clouds serve metadata.
var inside = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("10.0.0.0/8"),       // private
	netip.MustParsePrefix("100.64.0.0/10"),    // shared with the provider; Alibaba's metadata
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's host
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local; most clouds' metadata
	netip.MustParsePrefix("172.16.0.0/12"),    // private
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; Oracle's metadata
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4's relays, of old
	netip.MustParsePrefix("192.168.0.0/16"),   // private
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved: the mesh's virtual addresses; broadcast
	netip.MustParsePrefix("::/127"),           // unspecified, loopback
	netip.MustParsePrefix("64:ff9b:1::/48"),   // NAT64 of a local network
	netip.MustParsePrefix("100::/64"),         // discard
	netip.MustParsePrefix("2001:2::/48"),      // benchmarks: the mesh's virtual addresses
	netip.MustParsePrefix("5f00::/16"),        // segment routing
	netip.MustParsePrefix("fc00::/7"),         // unique local; AWS's metadata
	netip.MustParsePrefix("fe80::/10"),        // link-local
	netip.MustParsePrefix("fec0::/10"),        // site-local, of old
	netip.MustParsePrefix("ff00::/8"),         // multicast
}

// The IPv6 prefixes that hold an IPv4 address which somebody on the way unpacks.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052: the last 32 bits
	compatible = netip.MustParsePrefix("::/96")        // RFC 4291, of old: the last 32 bits
	translated = netip.MustParsePrefix("::ffff:0:0:0/96")
	sixToFour  = netip.MustParsePrefix("2002::/16") // RFC 3056: bits 16 to 47
	teredo     = netip.MustParsePrefix("2001::/32") // RFC 4380: the last 32 bits, inverted
)

// Is tells whether addr is private, loopback, link-local, unspecified, multicast, unique local, reserved or a cloud's
// metadata service, also when it hides in an IPv4-mapped, NAT64, 6to4, Teredo or ISATAP address. No address at all is
// inside.
func Is(addr netip.Addr) bool {
	return among(addr, inside)
}

// OwnHost tells whether addr is the host of whoever connects to it, in any of its forms: loopback, or unspecified, which
// the kernel takes for it.
func OwnHost(addr netip.Addr) bool {
	return among(addr, own)
}

// OwnName tells whether a host is one that resolvers take for the host of whoever asks, without asking anybody (RFC 6761, section 6.3).
func OwnName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// NoEndpoint tells whether addr is one at which no endpoint of a cluster can be, whoever writes it there, in any of its forms: the host of whoever
// connects, link-local and multicast addresses, and those at which clouds serve machines what is for nobody else.
func NoEndpoint(addr netip.Addr) bool {
	return among(addr, noEndpoint)
}

var noEndpoint = append([]netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's host
	netip.MustParsePrefix("169.254.0.0/16"),   // link-local; most clouds' metadata
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; Oracle's metadata
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("fd00:ec2::/112"),   // AWS's metadata, and what else it serves there
	netip.MustParsePrefix("fe80::/10"),        // link-local
	netip.MustParsePrefix("ff00::/8"),         // multicast
}, own...)

// OwnHostIn tells whether a range has addresses of the host of whoever connects to them; IPv6 ranges count as if they did.
func OwnHostIn(p netip.Prefix) bool {
	if p.IsSingleIP() {
		return OwnHost(p.Addr())
	}
	return !p.Addr().Is4() || slices.ContainsFunc(own, p.Overlaps)
}

var own = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::/127"),
}

func among(addr netip.Addr, ranges []netip.Prefix) bool {
	addr = addr.WithZone("").Unmap()
	for _, prefix := range ranges {
		if prefix.Contains(addr) {
			return true
		}
	}
	if !addr.Is6() {
		return !addr.IsValid()
	}
	hidden, ok := unpack(addr)
	return ok && among(hidden, ranges)
}

// Plain gives the address that is meant: of an IPv6 address that stands for an IPv4 address, that one.
func Plain(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if addr.Is6() {
		if hidden, ok := unpack(addr); ok {
			return hidden
		}
	}
	return addr
}

// unpack finds the IPv4 address that an IPv6 address stands for.
func unpack(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case nat64.Contains(addr), compatible.Contains(addr), translated.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(addr):
		var v4 [4]byte
		binary.BigEndian.PutUint32(v4[:], ^binary.BigEndian.Uint32(b[12:]))
		return netip.AddrFrom4(v4), true
	case isatap(b):
		return netip.AddrFrom4([4]byte(b[12:])), true
	default:
		return netip.Addr{}, false
	}
}

// isatap: an interface identifier that holds an IPv4 address (RFC 5214 section 6.1), whatever the prefix.
func isatap(b [16]byte) bool {
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}
