package agent

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/dnsproxy/guard"
)

// private says which names may resolve to addresses that are not on the public internet, and which of those addresses
// any name may have. What is in neither list is refused: a proxy that may reach the inside would otherwise be the way
// in for everybody who can make a public name point there.
type private struct {
	hosts  []string // lower case: "*", "*.SUFFIX" or a name
	ranges []netip.Prefix
}

// parsePrivate reads host patterns, addresses and address ranges.
func parsePrivate(patterns []string) (private, error) {
	var p private
	for _, text := range patterns {
		pattern := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), "."))
		if addr, err := netip.ParseAddr(pattern); err == nil {
			p.ranges = append(p.ranges, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		if strings.Contains(pattern, "/") {
			prefix, err := netip.ParsePrefix(pattern)
			if err != nil {
				return p, invalid("allow-private %q: no address range; write it like 10.1.0.0/16", text)
			}
			p.ranges = append(p.ranges, prefix.Masked())
			continue
		}
		if !isHostPattern(pattern) {
			return p, invalid("allow-private %q: write a host (db.corp.example), all below a domain (*.corp.example), an address range (10.1.0.0/16) or *", text)
		}
		p.hosts = append(p.hosts, pattern)
	}
	return p, nil
}

func isHostPattern(s string) bool {
	if s == "*" {
		return true
	}
	for label := range strings.SplitSeq(strings.TrimPrefix(s, "*."), ".") {
		if label == "" || strings.ContainsAny(label, "*: \t@") {
			return false
		}
	}
	return true
}

// refuses has the shape of the resolver's Refuse.
func (p private) refuses(host string, addr netip.Addr) bool {
	return guard.Inside(host, addr) && !p.allows(host, addr)
}

func (p private) allows(host string, addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	return slices.ContainsFunc(p.ranges, func(r netip.Prefix) bool { return r.Contains(addr) }) ||
		slices.ContainsFunc(p.hosts, func(pattern string) bool { return covers(pattern, host) })
}

// covers: a wildcard stands for names of any depth below its suffix, but not for the suffix itself (RFC 4592).
func covers(pattern, host string) bool {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return host == pattern
	}
	return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
}
