package verify

import (
	"context"
	"fmt"
	"net/netip"
)

var portWay = Way{Name: "port", About: "further TCP ports of an address outside, such as those that are excluded from capture", Needs: "--target-ip ADDR and --port PORT", try: func(ctx context.Context, e *Env) []Result {
	return each(e.Addrs, func(a netip.Addr) []Result {
		return each(e.TCPPorts, func(port uint16) []Result {
			to := netip.AddrPortFrom(a, port).String()
			return []Result{e.http(ctx, Result{Tried: "TCP to " + to, URL: "tcp://" + to}, to, fmt.Sprint(a))}
		})
	})
}}
