package upstream

import (
	"crypto/rand"
	"encoding/hex"
	"time"

	"github.com/miekg/dns"
)

// trait is something that a question by UDP may have and that not every server deals with.
type trait uint8

const (
	edns   trait = 1 << iota
	mixed        // the case of the name at random (0x20)
	cookie       // RFC 7873
	plain  trait = edns
)

// relearn is how long a server is taken for one that does not deal with something.
const relearn = time.Hour

// traits are what a server was found to deal with. The owner locks them.
type traits struct {
	avoided map[trait]time.Time // until then
	client  string              // our half of the cookie, 8 bytes in hexadecimal
	server  string              // its half; "" means none was seen yet
}

func newTraits() traits {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return traits{avoided: map[trait]time.Time{}, client: hex.EncodeToString(b[:])}
}

// avoid leaves out t for a while.
func (p *peer) avoid(t trait, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.avoided[t] = now.Add(relearn)
	if t == cookie {
		p.server = ""
	}
}

// dealsWith leaves out of all what is avoided now. Cookies need EDNS.
func (p *peer) dealsWith(all trait) trait {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for t, until := range p.avoided {
		if now.Before(until) {
			all &^= t
		}
	}
	if all&edns == 0 {
		all &^= cookie
	}
	return all
}

// cookies returns what to send, and whether the server is known to send them back.
func (p *peer) cookies() (text string, expected bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.client + p.server, p.server != ""
}

// learnCookie takes the cookie of an answer. ok is false when it answers somebody else's, or a known one is missing.
func (p *peer) learnCookie(msg *dns.Msg, sent string, expected bool) (ok bool) {
	got := cookieOf(msg)
	if got == "" {
		return !expected
	}
	const client = 16 // digits
	if len(got) < client || got[:client] != sent[:client] {
		return false
	}
	if full := len(got); full >= 32 && full <= 80 { // the server's half has 8 to 32 bytes
		p.mu.Lock()
		defer p.mu.Unlock()
		p.server = got[client:]
	}
	return true
}

func cookieOf(msg *dns.Msg) string {
	opt := msg.IsEdns0()
	if opt == nil {
		return ""
	}
	for _, option := range opt.Option {
		if c, ok := option.(*dns.EDNS0_COOKIE); ok {
			return c.Cookie
		}
	}
	return ""
}
