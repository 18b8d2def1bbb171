package upstream

import (
	"fmt"
	"slices"

	"github.com/miekg/dns"
)

// maxChain is the longest chain of CNAMEs that is followed.
const maxChain = 16

// Scrub takes out of msg what does not answer q: records beside the chain of aliases that starts at the name asked
// for, name servers, additional records, EDNS. It fails for chains that do not end.
func Scrub(msg *dns.Msg, q Question) error {
	owners, err := chain(msg.Answer, dns.CanonicalName(q.Name))
	if err != nil {
		return err
	}
	msg.Answer = slices.DeleteFunc(msg.Answer, func(rr dns.RR) bool { return !answers(rr, q, owners) })
	msg.Ns = slices.DeleteFunc(msg.Ns, func(rr dns.RR) bool { return !proves(rr, q, owners) })
	msg.Extra = nil
	return nil
}

// Tail is the end of a chain of aliases whose records the answer does not have, nor says that there are none: the
// server has followed it as far as it knows. msg has been scrubbed.
func Tail(msg *dns.Msg, q Question) (name string, open bool) {
	if msg.Rcode != dns.RcodeSuccess || q.Type == dns.TypeCNAME || q.Type == dns.TypeANY || len(msg.Answer) == 0 {
		return "", false
	}
	owners, err := chain(msg.Answer, dns.CanonicalName(q.Name))
	if err != nil || len(owners) < 2 {
		return "", false
	}
	last := owners[len(owners)-1]
	for _, rr := range msg.Answer {
		if rr.Header().Rrtype == q.Type && dns.CanonicalName(rr.Header().Name) == last {
			return "", false
		}
	}
	denied := slices.ContainsFunc(msg.Ns, func(rr dns.RR) bool {
		return rr.Header().Rrtype == dns.TypeSOA && dns.IsSubDomain(rr.Header().Name, last)
	})
	return last, !denied
}

// chain lists the names from name on along the CNAMEs.
func chain(answer []dns.RR, name string) ([]string, error) {
	next := map[string]string{}
	for _, rr := range answer {
		if cname, ok := rr.(*dns.CNAME); ok {
			next[dns.CanonicalName(cname.Hdr.Name)] = dns.CanonicalName(cname.Target)
		}
	}
	owners := []string{name}
	for next[name] != "" {
		name = next[name]
		if slices.Contains(owners, name) || len(owners) > maxChain {
			return nil, fmt.Errorf("the chain of CNAMEs from %s does not end", owners[0])
		}
		owners = append(owners, name)
	}
	return owners, nil
}

// answers tells whether rr belongs into the answer to q.
func answers(rr dns.RR, q Question, owners []string) bool {
	h := rr.Header()
	if h.Class != q.Class {
		return false
	}
	owner := dns.CanonicalName(h.Name)
	if h.Rrtype == dns.TypeDNAME {
		return slices.ContainsFunc(owners, func(name string) bool { return dns.IsSubDomain(owner, name) })
	}
	if sig, ok := rr.(*dns.RRSIG); ok && q.DO && sig.TypeCovered == dns.TypeDNAME {
		return slices.ContainsFunc(owners, func(name string) bool { return dns.IsSubDomain(owner, name) })
	}
	if !slices.Contains(owners, owner) {
		return false
	}
	return h.Rrtype == q.Type || h.Rrtype == dns.TypeCNAME || q.Type == dns.TypeANY || h.Rrtype == dns.TypeRRSIG && q.DO
}

// proves tells whether rr, in the authority section, says that something does not exist.
func proves(rr dns.RR, q Question, owners []string) bool {
	h := rr.Header()
	if h.Class != q.Class {
		return false
	}
	switch h.Rrtype {
	case dns.TypeSOA:
		zone := dns.CanonicalName(h.Name)
		return slices.ContainsFunc(owners, func(name string) bool { return dns.IsSubDomain(zone, name) })
	case dns.TypeNSEC, dns.TypeNSEC3, dns.TypeRRSIG:
		return q.DO
	default:
		return false
	}
}
