package dnsproxy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// view is a View at work.
type view struct {
	View
	id     byte
	search [][]byte // wire format
	s      *Server
	counts viewCounts
	policy *atomic.Pointer[policy] // see Server.SetPolicy
	asker  string                  // the key of View.Asker, where there is one
	// namespace is that of its clients, and of says whose questions share what there is with others', at a node; "" elsewhere.
	namespace, of string
}

// accept answers what is no question for us. Otherwise ok is false and the call is ready for quick. An empty answer
// means none.
func (v *view) accept(c *call, msg, out []byte) (answer []byte, ok bool) {
	err := c.Parse(msg)
	if errors.Is(err, packet.ErrIgnore) {
		return nil, true
	}
	v.counts.query(c.tcp)
	var rcode int
	switch {
	case errors.Is(err, packet.ErrVersion):
		rcode = dns.RcodeBadVers
	case errors.Is(err, packet.ErrNotImplemented):
		rcode = dns.RcodeNotImplemented
	case err != nil:
		rcode = dns.RcodeFormatError
	case c.Class != dns.ClassINET, c.Type == dns.TypeAXFR, c.Type == dns.TypeIXFR:
		rcode = dns.RcodeRefused
	case c.Type >= 128 && c.Type < 256 && c.Type != dns.TypeANY, c.Type == dns.TypeOPT, c.Type == 0:
		rcode = dns.RcodeNotImplemented // meta types (RFC 6895 section 3.1)
	default:
		return nil, false
	}
	return v.done(c, FromProtocol, rcode, c.simple(out, rcode, packet.EDENone), nil), true
}

// quick answers from memory: the table, the policy, the cache. ok is false where somebody has to be waited for.
func (v *view) quick(c *call, out []byte) (answer []byte, ok bool) {
	if v.Names {
		if !v.s.table.Ready() {
			c.held = true
			return nil, false
		}
		answer, c.known = v.fromTable(c, out)
		if v.waits(c) {
			return nil, false
		}
		if answer != nil {
			return v.done(c, FromTable, dns.RcodeSuccess, answer, nil), true
		}
	}
	if !v.policy.Load().resolves(c.Lower(), c.Type, c.known) {
		return v.denied(c, out, dns.RcodeNameError, reasonUnregistered, v.policy.Load().Refusal), true
	}
	if v.Policy != nil {
		switch v.Policy(v.question(c)) {
		case NXDomain:
			return v.denied(c, out, dns.RcodeNameError, reasonPolicy, reasonPolicy), true
		case Refused:
			return v.denied(c, out, dns.RcodeRefused, reasonPolicy, reasonPolicy), true
		}
	}
	now := v.s.now()
	e := v.s.cache.Get(c.Key(v.id))
	if e == nil || now >= e.Expires {
		if c.reason = v.limited(c); c.reason == "" {
			return nil, false
		}
		c.Said = c.reason
		answer := c.simple(out, dns.RcodeServerFailure, edeProhibited)
		return v.done(c, FromLimit, dns.RcodeServerFailure, answer, nil), true
	}
	if v.s.config.Prefetch && now >= e.Expires-(e.Expires-e.Stored)/10 && usable(e) && e.ClaimRefresh() {
		_, _ = v.s.flights.join(v.fetcher(c))
	}
	return v.cached(c, e, now, FromCache, out), true
}

// slow answers what quick could not.
func (v *view) slow(ctx context.Context, c *call, out []byte) []byte {
	if c.held {
		if !v.hold(ctx) {
			return v.failed(c, out, packet.EDENotReady, errNotReady)
		}
		if answer, ok := v.quick(c, out); ok {
			return answer
		}
	}
	if c.wait != nil {
		err := c.wait(ctx)
		if c.wait = nil; err != nil && v.registered(c) {
			c.Said = err.Error()
			return v.failed(c, out, packet.EDENotReady, err)
		}
		if answer, ok := v.quick(c, out); ok {
			return answer
		}
	}
	return v.ask(ctx, c, out)
}

// registered says whether the name is in the table.
func (v *view) registered(c *call) bool {
	answer, known := v.fromTable(c, nil)
	return answer != nil || known
}

// waits says whether the answer has to wait for something that View.Use gave, once.
func (v *view) waits(c *call) bool {
	if v.Use == nil || c.used || !c.isAddress() {
		return false
	}
	name := c.means
	if name == nil {
		name = c.Lower()
	}
	c.used, c.wait = true, v.Use(name)
	return c.wait != nil
}

var (
	errNotReady = errors.New("the name table has not come yet")
	errBusy     = errors.New("too many questions are waiting for upstream resolvers")
	errStopping = errors.New("the resolver is stopping")
)

// hold waits for the first name table.
func (v *view) hold(ctx context.Context) bool {
	timer := time.NewTimer(v.s.config.HoldBack)
	defer timer.Stop()
	select {
	case <-v.s.table.open:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// edeProhibited says that this client may not (RFC 8914 section 4.19).
const edeProhibited uint16 = 18

// denied answers what the policy does not want resolved; said is what the client is told.
func (v *view) denied(c *call, out []byte, rcode int, reason, said string) []byte {
	c.reason, c.Said = reason, said
	return v.done(c, FromPolicy, rcode, c.simple(out, rcode, packet.EDEBlocked), nil)
}

// question is c in the words of policies and decisions.
func (v *view) question(c *call) Question {
	return Question{View: v.Name, Client: c.client, Asker: v.Asker, Name: packet.Text(c.Query.Name()), Type: c.Type, Known: c.known}
}

// failed answers SERVFAIL.
func (v *view) failed(c *call, out []byte, ede uint16, err error) []byte {
	return v.done(c, FromFailure, dns.RcodeServerFailure, c.simple(out, dns.RcodeServerFailure, ede), err)
}

// done counts and reports an answer, and returns it.
func (v *view) done(c *call, from Source, rcode int, answer []byte, err error) []byte {
	v.counts.answers[from].Inc()
	if !v.told(c, from) {
		return answer
	}
	d := Decision{
		Question: v.question(c), Time: c.start, Took: time.Since(c.start), Source: from, Rcode: rcode,
		Answers: packet.Addrs(answer[c.room():]), Filtered: c.filtered, Reason: c.reason, Err: err,
	}
	d.judge()
	if report := v.s.config.OnDecision; report != nil {
		report(d)
	}
	if report := v.s.config.OnDeny; report != nil && d.Verdict == Denied {
		report(d)
	}
	return answer
}

// told says whether anybody wants to know about an answer.
func (v *view) told(c *call, from Source) bool {
	return v.s.config.OnDecision != nil || v.s.config.OnDeny != nil && (from == FromPolicy || from == FromLimit || c.filtered)
}
