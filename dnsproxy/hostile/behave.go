package hostile

import (
	"crypto/rand"
	"encoding/hex"
	"net"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Lie is the address in forged answers.
const Lie = "10.6.6.6"

// Reply packs the answer to req with addr, changed by edit. The question is echoed as it came, and EDNS is spoken
// where req does.
func Reply(req *dns.Msg, addr string, edit func(*dns.Msg)) []byte {
	m := new(dns.Msg)
	m.SetReply(req)
	m.RecursionAvailable = true
	if opt := req.IsEdns0(); opt != nil {
		m.SetEdns0(1232, opt.Do())
	}
	if ip := net.ParseIP(addr); ip != nil && len(req.Question) == 1 {
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: req.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: ip}}
	}
	if edit != nil {
		edit(m)
	}
	wire, _ := m.Pack()
	return wire
}

// Answer is a server that works: every name has addr.
func Answer(addr string) Behaviour { return Edited(addr, nil) }

// Edited is Answer with a change to each message.
func Edited(addr string, edit func(*dns.Msg)) Behaviour {
	return func(w *Writer, req *dns.Msg) { w.Send(Reply(req, addr, edit)) }
}

// Silent never answers.
func Silent(*Writer, *dns.Msg) {}

// Hangup ends the connection instead of answering.
func Hangup(w *Writer, _ *dns.Msg) { w.Hangup() }

// Rcode answers nothing but a response code.
func Rcode(code int) Behaviour { return Edited("", func(m *dns.Msg) { m.Rcode = code }) }

// Slow answers after d.
func Slow(d time.Duration, then Behaviour) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			then(w, req)
		case <-w.Closed:
		}
	}
}

// Forged sends a lie that edit makes wrong, and then goes on.
func Forged(edit func(*dns.Msg), then Behaviour) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		w.Send(Reply(req, Lie, edit))
		then(w, req)
	}
}

// Elsewhere sends a lie that is right in all but the address it comes from, and then goes on.
func Elsewhere(then Behaviour) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		if other, err := net.ListenPacket("udp", "127.0.0.1:0"); err == nil {
			_, _ = other.WriteTo(Reply(req, Lie, nil), w.from)
			other.Close()
		}
		then(w, req)
	}
}

// Garbage sends what is no DNS, and then goes on.
func Garbage(then Behaviour) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		noise := make([]byte, 600)
		_, _ = rand.Read(noise)
		noise[0], noise[1] = byte(req.Id>>8), byte(req.Id)
		whole := Reply(req, Lie, nil)
		for _, wire := range [][]byte{{}, {1, 2, 3}, noise, whole[:len(whole)-2]} {
			w.Send(wire)
		}
		then(w, req)
	}
}

// Truncated says that the answer does not fit.
func Truncated(w *Writer, req *dns.Msg) {
	w.Send(Reply(req, Lie, func(m *dns.Msg) { m.Answer, m.Truncated = nil, true }))
}

// CutOff is Truncated in the middle of a record.
func CutOff(w *Writer, req *dns.Msg) {
	whole := Reply(req, Lie, func(m *dns.Msg) { m.Truncated, m.Extra = true, nil })
	w.Send(whole[:len(whole)-3])
}

// LowerCase is a server that does not keep the case of names.
func LowerCase(then Behaviour) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		req = req.Copy()
		req.Question[0].Name = strings.ToLower(req.Question[0].Name)
		then(w, req)
	}
}

// WithoutEDNS is a server of before 1999.
func WithoutEDNS(then Behaviour) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		if req.IsEdns0() != nil {
			w.Send(Reply(req, "", func(m *dns.Msg) { m.Question, m.Extra, m.Rcode = nil, nil, dns.RcodeFormatError }))
			return
		}
		then(w, req)
	}
}

// Cookies is a server that insists on DNS cookies (RFC 7873): with another server's half than secret, 16 hexadecimal
// digits, the answer is BADCOOKIE.
func Cookies(secret, addr string) Behaviour {
	return func(w *Writer, req *dns.Msg) {
		sent := ""
		if opt := req.IsEdns0(); opt != nil {
			for _, o := range opt.Option {
				if c, ok := o.(*dns.EDNS0_COOKIE); ok {
					sent = c.Cookie
				}
			}
		}
		if _, err := hex.DecodeString(sent); err != nil || len(sent) < 16 {
			w.Send(Reply(req, addr, nil))
			return
		}
		w.Send(Reply(req, addr, func(m *dns.Msg) {
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: sent[:16] + secret}}
			if sent[16:] != secret && w.Network == "udp" {
				m.Answer, m.Rcode = nil, dns.RcodeBadCookie
			}
		}))
	}
}

// Loop answers with two names that are each other's alias.
func Loop(w *Writer, req *dns.Msg) {
	w.Send(Reply(req, "", func(m *dns.Msg) {
		name := req.Question[0].Name
		m.Answer = []dns.RR{alias(name, "loop.test."), alias("loop.test.", name)}
	}))
}

// Endless answers each name with an alias that is one label longer, without ever an address.
func Endless(w *Writer, req *dns.Msg) {
	w.Send(Reply(req, "", func(m *dns.Msg) {
		m.Answer = []dns.RR{alias(req.Question[0].Name, "x."+req.Question[0].Name)}
	}))
}

func alias(name, target string) dns.RR {
	return &dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 60}, Target: target}
}
