package upstream

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"github.com/miekg/dns"
)

// udpSize is what we say that we can take in one datagram (DNS flag day 2020).
const udpSize = 1232

// ask is a question as it is sent to one server.
type ask struct {
	Question
	id             uint16
	sent           string // the name in the case that was chosen
	wire           []byte // nil for a name that no message can hold
	how            trait
	cookie         string // as sent
	expectedCookie bool
}

// compose makes a question with an unpredictable id (RFC 5452). AD asks for the verdict of a validating upstream
// (RFC 6840 section 5.7). Of EDNS options only our own are sent: a client's cookie or subnet is between it and us.
func (p *peer) compose(q Question, how trait) *ask {
	a := &ask{Question: q, id: dns.Id(), sent: q.Name, how: how}
	if how&mixed != 0 {
		a.sent = mixCase(q.Name, p.coins)
	}
	if how&cookie != 0 && how&edns != 0 {
		a.cookie, a.expectedCookie = p.cookies()
	}
	a.pack(p.Transport == TLS)
	return a
}

// Bits of a message's header (RFC 1035 section 4.1.1, RFC 4035) and of an OPT record's TTL (RFC 6891 section 6.1.3).
const (
	recursionDesired  = 1 << 8
	authenticatedData = 1 << 5
	checkingDisabled  = 1 << 4
	dnssecOK          = 1 << 15
)

// Sizes of the parts of a question, in bytes.
const (
	headerSize = 12
	aroundName = 2 + 4 + 11 + 2*4 + 40 // its ends, type and class, OPT, the heads of two options, the longest cookie (RFC 7873)
	paddedTo   = 128                   // RFC 8467 section 4.1
)

// errName is why a question is not asked.
var errName = errors.New("no message can hold the name")

// pack writes the message. Questions are all alike, so that this is done here and not by the library, which is made for
// messages of all kinds.
func (a *ask) pack(padded bool) {
	b := make([]byte, headerSize, headerSize+len(a.sent)+aroundName+paddedTo)
	be := binary.BigEndian
	flags := uint16(recursionDesired | authenticatedData)
	if a.CD {
		flags |= checkingDisabled
	}
	be.PutUint16(b, a.id)
	be.PutUint16(b[2:], flags)
	be.PutUint16(b[4:], 1) // questions
	n, err := dns.PackDomainName(a.sent, b[:cap(b)], headerSize, nil, false)
	if err != nil {
		return
	}
	b = be.AppendUint16(be.AppendUint16(b[:n], a.Type), a.Class)
	if a.how&edns == 0 {
		a.wire = b
		return
	}
	be.PutUint16(b[10:], 1) // additional records
	do := uint32(0)
	if a.DO {
		do = dnssecOK
	}
	b = be.AppendUint16(append(b, 0), dns.TypeOPT) // of the root
	b = be.AppendUint32(be.AppendUint16(b, udpSize), do)
	options := len(b)
	b = be.AppendUint16(b, 0) // their length
	if a.cookie != "" {
		b = be.AppendUint16(be.AppendUint16(b, dns.EDNS0COOKIE), uint16(len(a.cookie)/2))
		b, _ = hex.AppendDecode(b, []byte(a.cookie))
	}
	if padded { // the length shall not tell the name
		short := (paddedTo - (len(b)+4)%paddedTo) % paddedTo
		b = be.AppendUint16(be.AppendUint16(b, dns.EDNS0PADDING), uint16(short))
		b = append(b, make([]byte, short)...)
	}
	be.PutUint16(b[options:], uint16(len(b)-options-2))
	a.wire = b
}

// coins fills b with bits, one for the case of each letter of a name.
type coins func(b []byte)

// randomCoins are unpredictable ones.
func randomCoins(b []byte) { _, _ = rand.Read(b) } // it does not fail

// mixCase chooses the case of each letter as the coins fall. What is escaped (RFC 1035 section 5.1) is no letter.
func mixCase(name string, toss coins) string {
	var coins [256 / 8]byte
	toss(coins[:])
	out := []byte(name)
	for i, c := range out {
		if coin := coins[i/8%len(coins)] >> (i % 8) & 1; coin == 1 && 'a' <= c && c <= 'z' {
			out[i] = c - 'a' + 'A'
		}
	}
	return string(out)
}
