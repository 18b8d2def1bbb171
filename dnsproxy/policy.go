package dnsproxy

import (
	"fmt"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// Policy says what becomes of questions that the name table does not answer. The zero value forwards them all.
type Policy struct {
	// RefuseUnregistered answers NXDOMAIN for names that nobody registered. It is the answer after which the C libraries
	// try their next search domain: musl takes REFUSED for no answer at all and waits 5 s, and stops at SERVFAIL; with
	// either of them, or with NOERROR and no records, a name that is registered would not be found from a guess before it.
	RefuseUnregistered bool
	// Refusal is what clients that speak EDNS are told of it, in words (RFC 8914), beside the name; "" says no more than that it is refused.
	Refusal string
	// Known tells of registered names that the name table does not have. The host is in lower case, without the last
	// dot. It is called for questions that would be refused otherwise; it must be quick. nil: none.
	Known func(host string) bool
	// Local are domains that are resolved with all names below them, like cluster.local: their server does not ask
	// further.
	Local []string
	// LocalReverse resolves the reverse names of addresses that are not public, as those of a cluster's services: which host has them (PTR), and
	// nothing else, since no client asks for more, and it would go to other people's servers for nothing.
	LocalReverse bool

	// StripECH takes the keys by which clients hide the name that they go to (ECH, the parameter "ech" of RFC 9460's records)
	// out of answers: a client that has none sends its name in the clear. Flush after changing it.
	StripECH bool

	// Upstream and Odd bound, for each client, the questions that cannot be answered from memory, and those among them
	// that look like a tunnel's (limit.OddityOf). Above them the answer is SERVFAIL: try again later.
	Upstream, Odd limit.Rate
	// Clients is how many clients are told apart. 0: limit.DefaultClients.
	Clients int
}

// Reasons of what was denied, in decisions.
const (
	reasonUnregistered = "the name is not registered"
	reasonPolicy       = "the view's policy refuses the name"
	reasonRate         = "the client asks for more names than it may"
	reasonFiltered     = "the addresses are not public"
)

// reasonsOdd are those of questions above Policy.Odd.
var reasonsOdd = [limit.OddCount]string{
	limit.Type:   "too many questions for an unusual record type",
	limit.Long:   "too many questions for very long names",
	limit.Random: "too many questions for names that look like encoded data",
}

// policy is a Policy made ready.
type policy struct {
	Policy
	local         [][]byte // wire format
	upstream, odd *limit.Buckets[client]
}

func newPolicy(p Policy) (*policy, error) {
	ready := &policy{Policy: p, upstream: limit.New[client](p.Upstream, p.Clients), odd: limit.New[client](p.Odd, p.Clients)}
	for i, domain := range p.Local {
		if err := (name.Name{Host: domain}).Validate(); err != nil {
			return nil, fmt.Errorf("dns: policy: local[%d]: %w", i, err)
		}
		ready.local = append(ready.local, packet.AppendName(nil, domain))
	}
	return ready, nil
}

// SetPolicy replaces the policy of a view, for the questions from now on. The clients' allowances begin anew.
func (s *Server) SetPolicy(view string, p Policy) error {
	v := s.view(view)
	if v == nil {
		return fmt.Errorf("dns: policy: there is no view %q", view)
	}
	ready, err := newPolicy(p)
	if err == nil {
		v.policy.Store(ready)
	}
	return err
}

// resolves tells whether the name, lower-case in wire format, may be asked about, for records of a type.
func (p *policy) resolves(wire []byte, kind uint16, known bool) bool {
	switch {
	case !p.RefuseUnregistered, known, len(wire) == 1: // the root's own records tell nobody anything
		return true
	case p.isLocal(wire), p.LocalReverse && kind == dns.TypePTR && isInsideReverse(wire):
		return true
	default:
		return p.Known != nil && p.Known(packet.Text(wire))
	}
}

func (p *policy) isLocal(wire []byte) bool {
	for _, domain := range p.local {
		if at := len(wire) - len(domain); at >= 0 && string(wire[at:]) == string(domain) && onBoundary(wire, at) {
			return true
		}
	}
	return false
}

// isInsideReverse tells the reverse names of addresses that are not public: a cluster's own.
func isInsideReverse(wire []byte) bool {
	addr, ok := reversed(wire)
	return ok && inside.Is(addr)
}

// limited tells why c may not be asked upstream now: "" if it may. what is odd is counted either way.
func (v *view) limited(c *call) string {
	odd := limit.OddityOf(c.Lower(), c.Type)
	if odd != limit.Usual {
		v.counts.odd[odd].Inc()
	}
	p, now, from := v.policy.Load(), v.s.now(), v.clientOf(c)
	switch {
	case odd != limit.Usual && !p.odd.Allow(from, now):
		return reasonsOdd[odd]
	case !p.upstream.Allow(from, now):
		return reasonRate
	default:
		return ""
	}
}
