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
			return []Result{e.podPort(ctx, Result{Tried: fmt.Sprintf("the %s of the proxy at %s", p.what, to)}, to)}
		})
	})
}}

// podPort asks for a page, under the address itself, which the own proxy has no reason to refuse. The connection may be made:
// pods reach each other.
func (e *Env) podPort(ctx context.Context, r Result, to string) Result {
	c, err := e.dial(ctx, to)
	if err != nil {
		return r.judgeDial(err, e.Wait)
	}
	defer func() { _ = c.Close() }()
	r = r.page(e, c, to).judgeInside()
	if r.Verdict == Closed && strings.HasPrefix(r.Seen, "the proxy let it pass") {
		r.Seen = "the other pod ended it: " + r.Seen
	}
	return r
}
