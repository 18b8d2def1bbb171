package verify

import (
	"context"
	"net/netip"
)

// udpWay asks at a port where nobody is, as traceroute does: a host that is reached says so.
var udpWay = Way{Name: "udp", About: "UDP to another port than DNS and QUIC have", Needs: "--target-ip ADDR", Direct: true, try: func(ctx context.Context, e *Env) []Result {
	return each(e.Addrs, func(a netip.Addr) []Result {
		to := netip.AddrPortFrom(a, e.ports.UDP)
		r := Result{Tried: "UDP to " + to.String()}
		got := e.datagram(ctx, to, []byte(userAgent), anywhere)
		if got.err != nil {
			return []Result{r.judgeDatagram(got, a, e)}
		}
		return []Result{r.conclude(Open, "answered with %d bytes", len(got.data))}
	})
}}
