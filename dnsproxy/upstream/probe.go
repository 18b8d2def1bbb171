package upstream

import (
	"time"

	"github.com/miekg/dns"
)

// probe asks those servers for the root's name servers that questions do not reach: to find ill ones well again, and
// to learn of a faster one. It does so only while there are questions, in the background.
func (c *Client) probe(peers []*peer, now time.Time) {
	for i, p := range peers {
		if (i > 0 || p.ill()) && p.claimProbe(now) {
			c.work.Go(func() {
				c.attempt(c.base, p, Question{Name: ".", Type: dns.TypeNS, Class: dns.ClassINET}, 0)
				p.mu.Lock()
				defer p.mu.Unlock()
				p.probingNow = false
			})
		}
	}
}

func (p *peer) ill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failures > 0
}

// claimProbe is true for one caller, when it is time.
func (p *peer) claimProbe(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probingNow || now.Before(p.nextProbe) {
		return false
	}
	p.probingNow = true
	return true
}
