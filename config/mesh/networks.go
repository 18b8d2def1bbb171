package mesh

import "net/netip"

// networks reads a list of ranges of addresses.
func (b *block) networks(at string, v any) (out []netip.Prefix) {
	for path, s := range b.texts(at, v) {
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			b.add(path, s, "is no range of addresses", `write it as in "10.0.0.0/8" or "fd00::/8"`)
		case p.Addr().Is4In6() || p != p.Masked():
			b.add(path, s, "has bits behind its mask, or is an IPv4 range written as IPv6", "write "+netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked().String())
		case p.Bits() == 0:
			b.add(path, s, "holds every address, so that nothing would be outside", "name the pods' and the nodes' networks")
		default:
			out = append(out, p)
		}
	}
	return out
}
