package upstream

import "time"

// pace is how long a client waits for what, so that tests need not.
type pace struct {
	unmeasured  time.Duration // before another server is asked as well, where the first one's speed is not known
	least, most time.Duration // the same where it is known
	datagram    time.Duration // for the first attempt by UDP
	stream      time.Duration // for the first attempt by TCP or TLS: a connection must be made first
	unproven    time.Duration // for a proven answer after an unproven one has come
}

var usualPace = pace{
	unmeasured: 400 * time.Millisecond, least: 200 * time.Millisecond, most: 800 * time.Millisecond,
	datagram: 800 * time.Millisecond, stream: 1600 * time.Millisecond, unproven: 50 * time.Millisecond,
}

// hedge is how long to wait for an answer before another server is asked as well. It leaves time for a resolver that
// must ask others first.
func (p *pace) hedge(h *health) time.Duration {
	if !h.measured {
		return p.unmeasured
	}
	return min(max(3*(h.srtt+4*h.sdev), p.least), p.most)
}

// patience is how long the first attempt may take.
func (p *pace) patience(t Transport) time.Duration {
	if t == UDP {
		return p.datagram
	}
	return p.stream
}
