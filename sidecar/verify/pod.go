package verify

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

var podWay = Way{Name: "pod", About: "another pod's proxy: its outbound and inbound ports, and its administration", Needs: "--pod ADDR", try: func(ctx context.Context, e *Env) []Result {
	return each(e.Pods, func(a netip.Addr) []Result {
		return each([]struct {
			what string
			port uint16
		}{{"outbound port", e.ports.Outbound}, {"inbound port", e.ports.Inbound}, {"administration", e.ports.Admin}}, func(p struct {
			what string
			port uint16
		}) []Result {
			to := netip.AddrPortFrom(a, p.port).String()
			host := to
			if len(e.Hosts) > 0 {
				host = e.Hosts[0]
			}
			return []Result{e.podPort(ctx, Result{Tried: fmt.Sprintf("the %s of the proxy at %s", p.what, to)}, to, host)}
		})
	})
}}

// podPort asks for a page. The connection itself may be made: pods reach each other.
func (e *Env) podPort(ctx context.Context, r Result, to, host string) Result {
	c, err := e.dial(ctx, to)
	if err != nil {
		return r.failed(err, e.Wait)
	}
	defer func() { _ = c.Close() }()
	r = r.page(e, c, host).ownNetwork()
	if r.Verdict == Closed && strings.HasPrefix(r.Seen, "the proxy let it pass") {
		r.Seen = "the other pod ended it: " + r.Seen
	}
	return r
}
