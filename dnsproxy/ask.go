package dnsproxy

import (
	"context"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/dnsproxy/cache"
	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// ask answers from upstream, or with a stale answer where upstream fails or takes too long (RFC 8767 section 5).
func (v *view) ask(ctx context.Context, c *call, out []byte) []byte {
	key, now := c.Key(v.id), v.s.now()
	old := v.s.cache.Get(key)
	if old != nil && (now >= old.Gone || !usable(old)) {
		old = nil
	}
	if old != nil && old.Deferred(now) {
		return v.cached(c, old, now, FromStale, out)
	}
	set := v.s.flights.lead
	if old != nil { // it may be given before the flight lands
		set = v.s.flights.join
	}
	f, err := set(v.fetcher(c))
	if err == nil {
		err = v.await(ctx, f, old)
	}
	switch {
	case err == nil && f.entry != nil:
		return v.cached(c, f.entry, f.entry.Stored, FromUpstream, out)
	case old != nil:
		return v.cached(c, old, max(now, old.Expires), FromStale, out)
	default:
		return v.failed(c, out, packet.EDENoUpstream, err)
	}
}

// await returns when f has landed or the client should not wait any more. With a stale answer at hand that is early.
func (v *view) await(ctx context.Context, f *flight, old *cache.Entry) error {
	var late <-chan time.Time
	if old != nil {
		timer := time.NewTimer(v.s.config.StaleAfter)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-f.done:
		return f.err
	case <-late:
		old.Defer(v.s.now() + v.s.config.StaleRetry) // f goes on, and what it brings is fresh again
		return context.DeadlineExceeded
	case <-ctx.Done():
		return errStopping
	}
}

// cached answers with e as it is at now.
func (v *view) cached(c *call, e *cache.Entry, now time.Duration, from Source, out []byte) []byte {
	if !usable(e) {
		from = FromFailure
	}
	c.filtered = e.Hidden
	answer := c.sealed(out, e, now, v.s.staleTTL, seconds(v.MaxTTL))
	return v.done(c, from, e.Answer.Rcode(), answer, nil)
}

// usable tells answers from remembered failures.
func usable(e *cache.Entry) bool {
	rcode := e.Answer.Rcode()
	return rcode == dns.RcodeSuccess || rcode == dns.RcodeNameError
}
