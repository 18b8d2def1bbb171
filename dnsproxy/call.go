package dnsproxy

import (
	"context"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/cache"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// call is one question on its way through a view.
type call struct {
	packet.Query
	client netip.AddrPort
	tcp    bool
	start  time.Time
	held   bool                        // it came before the name table
	known  bool                        // the name table has the name, but no addresses for it
	means  []byte                      // the name that a guess of the client's stands for; nil without a guess
	used   bool                        // View.Use was told
	wait   func(context.Context) error // what it gave

	filtered bool   // addresses were taken out of the answer
	reason   string // of a denial
}

// clone makes a call that outlives the buffer that its question was read into.
func (c *call) clone(msg []byte) *call {
	kept := &call{client: c.client, tcp: c.tcp, start: c.start, held: c.held, used: c.used, wait: c.wait}
	_ = kept.Parse(append([]byte(nil), msg...)) // it parsed before
	return kept
}

// room is what an answer's buffer begins with, in bytes: by TCP the length of the message.
func (c *call) room() int {
	if c.tcp {
		return 2
	}
	return 0
}

// simple answers without records.
func (c *call) simple(out []byte, rcode int, ede uint16) []byte {
	msg := len(out)
	return c.Finish(c.Reply(out, rcode, 0), msg, rcode, ede, c.Limit(c.tcp))
}

// sealed answers with what was kept. now must be the time by which e was chosen; stale, the TTL of what has expired, and most, the longest one, are in
// seconds.
func (c *call) sealed(out []byte, e *cache.Entry, now time.Duration, stale, most uint32) []byte {
	msg, ede := len(out), packet.EDENone
	age := e.Age(now, stale)
	age.Most = most
	rcode := e.Answer.Rcode()
	switch {
	case rcode != dns.RcodeSuccess && rcode != dns.RcodeNameError:
		ede = packet.EDENoUpstream
	case age.Stale > 0 && rcode == dns.RcodeNameError:
		ede = packet.EDEStaleNXDomain
	case age.Stale > 0:
		ede = packet.EDEStale
	case e.Hidden:
		ede, c.Said = packet.EDEFiltered, reasonFiltered
	}
	return c.Finish(e.Answer.Answer(out, &c.Query, age), msg, rcode, ede, c.Limit(c.tcp))
}
