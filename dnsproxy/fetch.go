package dnsproxy

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"

	"github.com/sallyport/sallyport/dnsproxy/cache"
	"github.com/sallyport/sallyport/dnsproxy/packet"
	"github.com/sallyport/sallyport/dnsproxy/upstream"
)

// fetcher returns how c's answer is asked for upstream and kept. It does not hold on to c.
func (v *view) fetcher(c *call) fetch {
	key := append([]byte(nil), c.Key(v.id)...)
	lower := append([]byte(nil), c.Lower()...)
	question := upstream.Question{Type: c.Type, Class: c.Class, DO: c.DO, CD: c.CD()}
	return fetch{key: key, share: v.shareOf(domainOf(packet.Text(lower))), do: func() (*cache.Entry, error) {
		text, _, err := dns.UnpackDomainName(lower, 0)
		if err != nil {
			return nil, fmt.Errorf("question: %w", err)
		}
		question.Name = text
		e, err := v.fetch(key, lower, question)
		if err != nil {
			return v.fail(key, lower, question, err)
		}
		if e.Expires > e.Stored {
			v.s.cache.Put(e)
		}
		return e, nil
	}}
}

// domainOf is whose a name is: the part of it that somebody has registered below a public suffix (https://publicsuffix.org), under which he
// may make as many names as he likes.
func domainOf(host string) string {
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// fetch asks, and seals what comes.
func (v *view) fetch(key, lower []byte, q upstream.Question) (*cache.Entry, error) {
	msg, from, err := v.complete(lower, q)
	if err != nil {
		return nil, err
	}
	taken := v.filter(msg, packet.Text(lower))
	if v.policy.Load().StripECH {
		stripECH(msg)
	}
	if len(taken.addrs) > 0 {
		v.refused(lower, taken.addrs, from.Addr)
	}
	ttl := settleTTL(msg, q.Type, taken, v.s.config)
	return v.seal(key, msg, q, ttl, len(taken.addrs) > 0)
}

// seal packs msg into an entry that is fresh for ttl.
func (v *view) seal(key []byte, msg *dns.Msg, q upstream.Question, ttl time.Duration, hidden bool) (*cache.Entry, error) {
	msg.Compress = true
	msg.Question = []dns.Question{{Name: q.Name, Qtype: q.Type, Qclass: q.Class}}
	wire, err := msg.Pack()
	if err != nil {
		return nil, fmt.Errorf("pack the answer: %w", err)
	}
	answer, err := packet.Seal(wire)
	if err != nil {
		return nil, err
	}
	e := cache.NewEntry(key, answer)
	e.Stored, e.Hidden = v.s.now(), hidden
	e.Expires = e.Stored + ttl
	e.Gone = e.Expires + max(v.s.config.MaxStale, 0)
	return e, nil
}

// fail remembers that upstream failed: with the answer that there still is, or as an answer of its own (RFC 9520).
func (v *view) fail(key, lower []byte, q upstream.Question, cause error) (*cache.Entry, error) {
	if v.s.base.Err() != nil {
		return nil, errStopping
	}
	v.s.config.Log.Debug("no upstream resolver answered", "view", v.Name, "host", packet.Text(lower), "type", dns.TypeToString[q.Type], "error", cause)
	now := v.s.now()
	if old := v.s.cache.Get(key); old != nil && now < old.Gone && usable(old) {
		old.Defer(now + v.s.config.StaleRetry)
		return nil, cause
	}
	msg := &dns.Msg{MsgHdr: dns.MsgHdr{Response: true, Rcode: dns.RcodeServerFailure}}
	e, err := v.seal(key, msg, q, max(v.s.config.FailureTTL, 0), false)
	if err == nil && e.Expires > e.Stored {
		e.Gone = e.Expires
		v.s.cache.Put(e)
	}
	return nil, cause
}

func (v *view) refused(lower []byte, addrs []netip.Addr, from netip.AddrPort) {
	host := packet.Text(lower)
	r := Refusal{View: v.Name, Host: host, Domain: domainOf(host), Addresses: addrs, Upstream: from}
	v.counts.refused.Add(float64(len(addrs)))
	v.s.taken.say(r, v.s.now())
	if v.s.config.OnRefuse != nil {
		v.s.config.OnRefuse(r)
	}
}
