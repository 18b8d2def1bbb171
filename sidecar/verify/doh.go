package verify

import (
	"context"
	"net/netip"
	"net/url"
	"strconv"
)

var dohWay = Way{Name: "doh", About: "DNS over HTTPS to another resolver", Needs: "--doh URL or --resolver ADDR", try: func(ctx context.Context, e *Env) []Result {
	byAddress := each(e.Resolvers, func(server netip.AddrPort) []Result {
		to := netip.AddrPortFrom(server.Addr(), e.ports.HTTPS).String()
		return []Result{e.tls(ctx, Result{Tried: "HTTPS to " + to, URL: "tcp://" + to}, to, "")}
	})
	return append(byAddress, each(e.DoH, func(text string) []Result {
		r := Result{Tried: "HTTPS to " + text, URL: text}
		to, err := url.Parse(text)
		if err != nil {
			return []Result{r.conclude(Unclear, "%v", err)}
		}
		port := e.ports.HTTPS
		if n, err := strconv.ParseUint(to.Port(), 10, 16); err == nil {
			port = uint16(n)
		}
		addr, failed := e.at(ctx, r, to.Hostname(), port)
		if failed != nil {
			return []Result{*failed}
		}
		return []Result{e.tls(ctx, r, addr, to.Hostname())}
	})...)
}}

var dotWay = Way{Name: "dot", About: "DNS over TLS to another resolver", Needs: "--resolver ADDR", try: func(ctx context.Context, e *Env) []Result {
	return each(e.Resolvers, func(server netip.AddrPort) []Result {
		to := netip.AddrPortFrom(server.Addr(), e.ports.DoT).String()
		return []Result{e.tls(ctx, Result{Tried: "TLS to " + to, URL: "tcp://" + to}, to, "")}
	})
}}
