package verify

import (
	"context"
	"net/netip"
)

var dotWay = Way{Name: "dot", About: "DNS over TLS to another resolver", Needs: "--resolver ADDR", try: func(ctx context.Context, e *Env) []Result {
	return each(e.Resolvers, func(server netip.AddrPort) []Result {
		to := netip.AddrPortFrom(server.Addr(), e.ports.DoT).String()
		return []Result{e.tls(ctx, Result{Tried: "TLS to " + to, URL: "tcp://" + to}, to, "")}
	})
}}
