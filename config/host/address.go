package host

import (
	"net/netip"
	"strings"
)

// IsAddress says whether a host, or a pattern, is an address or can only be taken for one, as "10.0.0.1" or "*.0.0.1": its last label is a
// number, which no top-level domain is (RFC 3696 section 2).
func IsAddress(h string) bool {
	if _, err := netip.ParseAddr(h); err == nil {
		return true
	}
	last := h[strings.LastIndexByte(h, '.')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}
