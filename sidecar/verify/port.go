package verify

import (
	"context"
	"fmt"
	"net/netip"
)

var portWay = Way{Name: "port", About: "further TCP ports of an address outside, such as those that are excluded from capture", Needs: "--target-ip ADDR and --port PORT", try: func(ctx context.Context, e *Env) []Result {
	if len(e.Addrs) == 0 {
		return each(e.TCPPorts, func(port uint16) []Result {
			return []Result{{Tried: fmt.Sprintf("TCP port %d", port), Verdict: Skipped, Seen: "there is no address to try it at", Needs: "--target-ip ADDR"}}
		})
	}
	return each(e.Addrs, func(a netip.Addr) []Result {
		return each(e.TCPPorts, func(port uint16) []Result {
			to := netip.AddrPortFrom(a, port).String()
			return []Result{e.http(ctx, Result{Tried: "TCP to " + to, URL: "tcp://" + to}, to, fmt.Sprint(a))}
		})
	})
}}
