package upstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// ErrMismatch is a message that does not answer the question.
var ErrMismatch = errors.New("not an answer to the question")

// What an answer may lack that is right otherwise.
var (
	errCase   = fmt.Errorf("%w: the case of the name is not as it was asked", ErrUnproven)
	errCookie = fmt.Errorf("%w: the DNS cookie is missing or wrong", ErrUnproven)
)

// parse unpacks b if it answers a: same id, same question, a response (RFC 5452 section 9.1).
func parse(b []byte, a *ask) (*dns.Msg, error) {
	if len(b) < 12 || binary.BigEndian.Uint16(b) != a.id || b[2]&0x80 == 0 {
		return nil, ErrMismatch
	}
	msg := new(dns.Msg)
	if err := msg.Unpack(b); err != nil {
		// What is cut off may end in the middle of a record. The header is enough to go on by TCP.
		if !msg.Truncated || len(msg.Question) != 1 {
			return nil, fmt.Errorf("%w: %w", ErrMismatch, err)
		}
	}
	if msg.Opcode != dns.OpcodeQuery || !sameQuestion(msg, a) {
		return nil, ErrMismatch
	}
	return msg, nil
}

// sameQuestion also takes a failure without question, as servers send that know no EDNS.
func sameQuestion(msg *dns.Msg, a *ask) bool {
	if len(msg.Question) == 0 {
		return msg.Rcode == dns.RcodeFormatError || msg.Rcode == dns.RcodeNotImplemented
	}
	got := msg.Question[0]
	return len(msg.Question) == 1 && got.Qtype == a.Type && got.Qclass == a.Class && strings.EqualFold(got.Name, a.sent)
}

// match parses b as the answer to a and asks for proof: reliable is a transport that is proof enough, and from which
// the server's habits can be learned.
func (p *peer) match(b []byte, a *ask, reliable bool) (*dns.Msg, error) {
	msg, err := parse(b, a)
	if err != nil {
		return nil, err
	}
	kept := len(msg.Question) == 0 || msg.Question[0].Name == a.sent
	if a.how&mixed != 0 && !kept {
		if !reliable {
			return nil, errCase
		}
		p.avoid(mixed, time.Now())
	}
	if a.how&cookie != 0 && !p.learnCookie(msg, a.cookie, a.expectedCookie) {
		if !reliable {
			return nil, errCookie
		}
		p.avoid(cookie, time.Now())
	}
	if a.how&mixed != 0 {
		restore(msg, a.sent, a.Name)
	}
	return msg, nil
}
