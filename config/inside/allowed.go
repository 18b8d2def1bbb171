package inside

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Allowed says which hosts may have addresses of the inside, and which of those addresses any host may have. The zero
// value allows none.
type Allowed struct {
	hosts  []string // lower case: "*", "*.SUFFIX" or a name
	ranges []netip.Prefix
}

// Parse reads hosts (NAME, *.SUFFIX, *), addresses and address ranges.
func Parse(patterns []string) (Allowed, error) {
	var a Allowed
	for _, text := range patterns {
		pattern := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), "."))
		if addr, err := netip.ParseAddr(pattern); err == nil {
			addr = addr.WithZone("").Unmap()
			a.ranges = append(a.ranges, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		if strings.Contains(pattern, "/") {
			prefix, err := netip.ParsePrefix(pattern)
			if err != nil {
				return a, fmt.Errorf("%q: no address range; write it like 10.1.0.0/16", text)
			}
			a.ranges = append(a.ranges, prefix.Masked())
			continue
		}
		if !isHostPattern(pattern) {
			return a, fmt.Errorf("%q: write a host (db.corp.example), all below a domain (*.corp.example), an address range (10.1.0.0/16) or *", text)
		}
		a.hosts = append(a.hosts, pattern)
	}
	return a, nil
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

// With allows what either does.
func (a Allowed) With(b Allowed) Allowed {
	return Allowed{hosts: slices.Concat(a.hosts, b.hosts), ranges: slices.Concat(a.ranges, b.ranges)}
}

// Refuses says whether the host may not have the address. It has the shape of the resolver's Refuse.
func (a Allowed) Refuses(host string, addr netip.Addr) bool {
	return Is(addr) && !a.Covers(host, addr)
}

// RefusesRange says whether the host may not have all of a range of addresses.
func (a Allowed) RefusesRange(host string, p netip.Prefix) bool {
	return overlaps(p) &&
		!slices.ContainsFunc(a.ranges, func(r netip.Prefix) bool { return r.Bits() <= p.Bits() && r.Contains(p.Addr()) }) &&
		!slices.ContainsFunc(a.hosts, func(pattern string) bool { return covers(pattern, host) })
}

// overlaps says whether an address of the range is inside, as far as IPv4 goes; of IPv6 ranges, in which addresses can
// hide, all are taken for it.
func overlaps(p netip.Prefix) bool {
	return !p.Addr().Is4() || slices.ContainsFunc(inside, p.Overlaps)
}

// Covers says whether the host, or the address, is in the list. A host is in lower case and without the root's dot.
func (a Allowed) Covers(host string, addr netip.Addr) bool {
	addr = addr.WithZone("").Unmap()
	return slices.ContainsFunc(a.ranges, func(r netip.Prefix) bool { return r.Contains(addr) }) ||
		slices.ContainsFunc(a.hosts, func(pattern string) bool { return covers(pattern, host) })
}

// covers: a wildcard stands for names of any depth below its suffix, but not for the suffix itself (RFC 4592).
func covers(pattern, host string) bool {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return host == pattern
	}
	return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
}
