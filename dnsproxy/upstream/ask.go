package upstream

import (
	"crypto/rand"

	"github.com/miekg/dns"
)

// udpSize is what we say that we can take in one datagram (DNS flag day 2020).
const udpSize = 1232

// ask is a question as it is sent to one server.
type ask struct {
	Question
	req            *dns.Msg
	how            trait
	cookie         string // as sent
	expectedCookie bool
}

// compose makes a question with an unpredictable id (RFC 5452). AD asks for the verdict of a validating upstream
// (RFC 6840 section 5.7). Of EDNS options only our own are sent: a client's cookie or subnet is between it and us.
func (p *peer) compose(q Question, how trait) *ask {
	a := &ask{Question: q, how: how}
	name := q.Name
	if how&mixed != 0 {
		name = mixCase(name)
	}
	a.req = &dns.Msg{
		MsgHdr: dns.MsgHdr{
			Id: dns.Id(), Opcode: dns.OpcodeQuery, RecursionDesired: true, AuthenticatedData: true, CheckingDisabled: q.CD,
		},
		Question: []dns.Question{{Name: name, Qtype: q.Type, Qclass: q.Class}},
	}
	if how&edns == 0 {
		return a
	}
	opt := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	opt.SetUDPSize(udpSize)
	opt.SetDo(q.DO)
	a.req.Extra = []dns.RR{opt}
	if how&cookie != 0 {
		a.cookie, a.expectedCookie = p.cookies()
		opt.Option = append(opt.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: a.cookie})
	}
	if p.Transport == TLS { // RFC 8467: the length shall not tell the name
		short := (128 - (a.req.Len()+4)%128) % 128
		opt.Option = append(opt.Option, &dns.EDNS0_PADDING{Padding: make([]byte, short)})
	}
	return a
}

// mixCase chooses the case of each letter at random. What is escaped (RFC 1035 section 5.1) is no letter.
func mixCase(name string) string {
	var coins [256 / 8]byte
	_, _ = rand.Read(coins[:]) // it does not fail
	out := []byte(name)
	for i, c := range out {
		if coin := coins[i/8%len(coins)] >> (i % 8) & 1; coin == 1 && 'a' <= c && c <= 'z' {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}
