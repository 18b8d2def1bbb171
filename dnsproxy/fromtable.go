package dnsproxy

import (
	"bytes"
	"slices"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// fromTable answers from the name table; the answer is nil where that has none. known tells that it has the name.
func (v *view) fromTable(c *call, out []byte) (answer []byte, known bool) {
	names := v.s.table.state.Load().to(v.namespace)
	switch addr, reverse := reversed(c.Lower()); {
	case reverse:
		if l := names.holder(addr); l != nil {
			return c.hostOf(out, l), true
		}
	case c.Type == dns.TypePTR:
		return nil, false
	}
	l, guess := names.find(c.Lower()), 0
	if l == nil {
		l, guess = v.bySearch(names, c.Lower())
	}
	if l == nil {
		return nil, false
	}
	if guess > 0 && v.Use != nil {
		c.means = append(slices.Clone(c.Lower()[:guess]), 0)
	}
	if len(l.addrs) == 0 || !c.ofTable() {
		return nil, true
	}
	msg := len(out)
	out = c.Reply(out, dns.RcodeSuccess, 0)
	owner := packet.QuestionName
	if guess > 0 {
		var target [256]byte // the name that the client means; it ends where the search domain begins
		copy(target[:], c.Lower()[:guess])
		out, owner = packet.AppendCNAME(out, msg, target[:guess+1], l.ttl)
	}
	for _, addr := range l.addrs {
		if c.Type == dns.TypeANY || addr.Is4() == (c.Type == dns.TypeA) && c.isAddress() {
			out = packet.AppendAddrOf(out, msg, owner, addr, l.ttl)
		}
	}
	return c.Finish(out, msg, dns.RcodeSuccess, packet.EDENone, c.Limit(c.tcp)), true
}

// hostOf answers a reverse name: with the host that has the address, and, whatever else is asked for, that there is nothing.
func (c *call) hostOf(out []byte, l *line) []byte {
	msg := len(out)
	out = c.Reply(out, dns.RcodeSuccess, 0)
	if c.Type == dns.TypePTR || c.Type == dns.TypeANY {
		out = packet.AppendPTR(out, msg, l.host, l.ttl)
	}
	return c.Finish(out, msg, dns.RcodeSuccess, packet.EDENone, c.Limit(c.tcp))
}

func (c *call) isAddress() bool { return c.Type == dns.TypeA || c.Type == dns.TypeAAAA }

// ofTable tells whether the table answers this type for a name that has addresses, if only with "there is none".
// SVCB and HTTPS (RFC 9460) would name other addresses and ports than the table's; a CNAME cannot be beside addresses.
func (c *call) ofTable() bool {
	switch c.Type {
	case dns.TypeA, dns.TypeAAAA, dns.TypeANY, dns.TypeCNAME, dns.TypeSVCB, dns.TypeHTTPS:
		return true
	default:
		return false
	}
}

// bySearch finds NAME where NAME.DOMAIN was asked for and DOMAIN is one of the clients' search domains, and where in
// wire the latter begins. Only names of two labels and more, and no wildcards: a guess of the client's must not hide a
// real name in the domain. With NAME as an alias for the answer the client's search ends at its first question.
func (v *view) bySearch(names seen, wire []byte) (*line, int) {
	for _, domain := range v.search {
		size := len(wire) - len(domain)
		if size <= 0 || !bytes.Equal(wire[size:], domain) || !onBoundary(wire, size) {
			continue
		}
		var scratch [256]byte
		short := append(scratch[:0], wire[:size]...)
		short = append(short, 0)
		if parent := packet.Parent(short); len(parent) < 2 {
			continue
		}
		if l := names.exact(short); l != nil {
			return l, size
		}
	}
	return nil, 0
}

// onBoundary tells whether a label of wire begins at size.
func onBoundary(wire []byte, size int) bool {
	at := 0
	for at < size {
		at += 1 + int(wire[at])
	}
	return at == size
}
