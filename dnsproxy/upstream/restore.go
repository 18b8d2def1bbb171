package upstream

import (
	"strings"

	"github.com/miekg/dns"
)

// restore gives names that end like the one that was sent the case that was asked: servers compress names, and so
// repeat the sent one's. What a DNAME has made of it begins like it.
func restore(msg *dns.Msg, sent, asked string) {
	begin := 0
	for _, rr := range msg.Answer {
		if at := len(sent) - len(rr.Header().Name); rr.Header().Rrtype == dns.TypeDNAME && at > 0 && strings.EqualFold(sent[at:], rr.Header().Name) {
			begin = at
		}
	}
	fix := func(name *string) {
		*name = unmix(*name, sent, asked)
		if rest, ok := strings.CutPrefix(*name, sent[:begin]); ok {
			*name = asked[:begin] + rest
		}
	}
	for i := range msg.Question {
		fix(&msg.Question[i].Name)
	}
	for _, section := range [][]dns.RR{msg.Answer, msg.Ns} {
		for _, rr := range section {
			fix(&rr.Header().Name)
			switch rr := rr.(type) { // the types whose names may be compressed (RFC 3597 section 4), and SRV
			case *dns.CNAME:
				fix(&rr.Target)
			case *dns.DNAME:
				fix(&rr.Target)
			case *dns.PTR:
				fix(&rr.Ptr)
			case *dns.NS:
				fix(&rr.Ns)
			case *dns.MX:
				fix(&rr.Mx)
			case *dns.SRV:
				fix(&rr.Target)
			case *dns.SOA:
				fix(&rr.Ns)
				fix(&rr.Mbox)
			}
		}
	}
}

// unmix replaces the longest end of name that is an end of sent by the same end of asked, label by label.
func unmix(name, sent, asked string) string {
	for at := 0; at < len(sent); {
		if end := sent[at:]; strings.HasSuffix(name, end) {
			return name[:len(name)-len(end)] + asked[at:]
		}
		next, last := dns.NextLabel(sent, at)
		if last {
			break
		}
		at = next
	}
	return name
}
