package host

import "net/netip"

// The ranges that addresses for hosts without one come from; Istio's.
var (
	MadeUp4 = netip.MustParsePrefix("240.240.0.0/16")
	MadeUp6 = netip.MustParsePrefix("2001:2::/48")
)

// MadeUp says whether an address is from the ranges of made-up ones, which lead nowhere by themselves.
func MadeUp(ip netip.Addr) bool { return MadeUp4.Contains(ip) || MadeUp6.Contains(ip) }
