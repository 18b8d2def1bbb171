package upstream

import (
	"time"
)

// probe asks those servers as well that questions do not reach, in the background: to find ill ones well again, and to
// learn of a faster one. It asks what is being asked anyway: a server in a closed network has no answer to anything
// else, not even for the root.
func (c *Client) probe(peers []*peer, q Question, now time.Time) {
	for i, p := range peers {
		if (i > 0 || p.ill()) && p.claimProbe(now) {
			c.work.Go(func() {
				c.attempt(c.base, p, q, 0)
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
