package verify

import (
	"context"
	"net"
	"net/netip"
)

// anywhere6 is an address that only routing is asked about: nothing is sent there (RFC 3849).
const anywhere6 = "[2001:db8::1]:9"

var ipv6Way = Way{Name: "ipv6", About: "an IPv6 address outside", Needs: "--target-ip ADDR (IPv6)", try: func(ctx context.Context, e *Env) []Result {
	if targets := e.family(true); len(targets) > 0 || e.Proxy != nil {
		return each(targets, func(a netip.Addr) []Result { return e.address(ctx, a) })
	}
	if c, err := net.Dial("udp6", anywhere6); err == nil { // which asks the kernel for a route, and sends nothing
		_ = c.Close()
		return nil
	}
	return []Result{{Tried: "a route for IPv6", Verdict: Closed, Seen: "there is no IPv6 here: the kernel has no route to the outside"}}
}}
