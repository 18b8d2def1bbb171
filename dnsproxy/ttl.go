package dnsproxy

import (
	"math"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// settleTTL cuts the TTLs in msg down to what they may be and returns how long msg may be kept: as its shortest TTL
// says, and where it says that there is no such name or type, as its SOA says (RFC 2308 section 5). 0: not at all.
func settleTTL(msg *dns.Msg, kind uint16, out taken, config Config) time.Duration {
	limit := seconds(config.MaxTTL)
	shortest := limit
	if len(out.addrs) > 0 {
		shortest = min(shortest, out.ttl)
	} else if isNegative(msg, kind) {
		limit = min(limit, negativeTTL(msg), seconds(config.MaxNegativeTTL))
		shortest = limit
	}
	for _, rr := range msg.Ns {
		rr.Header().Ttl = min(rr.Header().Ttl, limit)
		shortest = min(shortest, rr.Header().Ttl)
	}
	for _, rr := range msg.Answer {
		rr.Header().Ttl = min(rr.Header().Ttl, seconds(config.MaxTTL))
		shortest = min(shortest, rr.Header().Ttl)
	}
	return time.Duration(shortest) * time.Second
}

// isNegative tells whether msg says that there is no such name, or no record of the kind.
func isNegative(msg *dns.Msg, kind uint16) bool {
	if msg.Rcode == dns.RcodeNameError {
		return true
	}
	return !slices.ContainsFunc(msg.Answer, func(rr dns.RR) bool {
		return rr.Header().Rrtype == kind || kind == dns.TypeANY
	})
}

// negativeTTL is the lesser of the SOA's own TTL and its last field. Without an SOA it is 0.
func negativeTTL(msg *dns.Msg) uint32 {
	for _, rr := range msg.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(soa.Hdr.Ttl, soa.Minttl)
		}
	}
	return 0
}

func seconds(d time.Duration) uint32 {
	return uint32(min(max(d/time.Second, 0), math.MaxInt32))
}
