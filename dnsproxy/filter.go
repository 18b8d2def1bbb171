package dnsproxy

import (
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// taken is what the guard took out of an answer.
type taken struct {
	addrs []netip.Addr
	ttl   uint32 // the shortest TTL of what was taken, in seconds
}

// filter takes addresses that View.Refuse refuses out of msg, also those that SVCB records hint at (RFC 9460).
func (v *view) filter(msg *dns.Msg, host string) taken {
	out := taken{ttl: math.MaxUint32}
	if v.Refuse == nil {
		return out
	}
	refuse := func(ip net.IP, ttl uint32) bool {
		addr, _ := netip.AddrFromSlice(ip)
		if !v.Refuse(host, addr) {
			return false
		}
		out.addrs = append(out.addrs, addr)
		out.ttl = min(out.ttl, ttl)
		return true
	}
	msg.Answer = slices.DeleteFunc(msg.Answer, func(rr dns.RR) bool {
		switch rr := rr.(type) {
		case *dns.A:
			return refuse(rr.A.To4(), rr.Hdr.Ttl)
		case *dns.AAAA:
			return refuse(rr.AAAA, rr.Hdr.Ttl)
		case *dns.SVCB:
			filterHints(rr, refuse)
		case *dns.HTTPS:
			filterHints(&rr.SVCB, refuse)
		}
		return false
	})
	if len(out.addrs) > 0 { // what is left is not what was signed
		msg.AuthenticatedData = false
		msg.Answer = slices.DeleteFunc(msg.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeRRSIG })
	}
	return out
}

func filterHints(rr *dns.SVCB, refuse func(net.IP, uint32) bool) {
	rr.Value = slices.DeleteFunc(rr.Value, func(pair dns.SVCBKeyValue) bool {
		var hints *[]net.IP
		switch pair := pair.(type) {
		case *dns.SVCBIPv4Hint:
			hints = &pair.Hint
		case *dns.SVCBIPv6Hint:
			hints = &pair.Hint
		default:
			return false
		}
		*hints = slices.DeleteFunc(*hints, func(ip net.IP) bool {
			if v4 := ip.To4(); v4 != nil {
				ip = v4
			}
			return refuse(ip, rr.Hdr.Ttl)
		})
		return len(*hints) == 0
	})
}
