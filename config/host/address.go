package host

import (
	"net/netip"
	"strings"
)

// Addr reads a host as an address; false of a name, which costs nothing.
func Addr(h string) (netip.Addr, bool) {
	if h == "" || strings.IndexByte(h, ':') < 0 && (h[len(h)-1] < '0' || h[len(h)-1] > '9') {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(h)
	return ip, err == nil
}

// Reachable is Addr for an address that others can connect to: zones mean something on one host only.
func Reachable(h string) (netip.Addr, bool) {
	ip, is := Addr(h)
	return ip, is && ip.Zone() == ""
}

// IsAddress says whether a host, or a pattern, is an address or can only be taken for one, as "10.0.0.1" or "*.0.0.1": its last label is a
// number, which no top-level domain is (RFC 3696 section 2).
func IsAddress(h string) bool {
	if _, is := Addr(h); is {
		return true
	}
	last := h[strings.LastIndexByte(h, '.')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// The ranges that addresses for hosts without one come from; Istio's.
var (
	MadeUp4 = netip.MustParsePrefix("240.240.0.0/16")
	MadeUp6 = netip.MustParsePrefix("2001:2::/48")
)

// MadeUp says whether an address is from the ranges of made-up ones, which lead nowhere by themselves.
func MadeUp(ip netip.Addr) bool { return MadeUp4.Contains(ip) || MadeUp6.Contains(ip) }
