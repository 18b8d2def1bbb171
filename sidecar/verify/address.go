package verify

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

var addressWay = Way{Name: "address", About: "an address outside, without asking for a name", Needs: "--target-ip ADDR", try: func(ctx context.Context, e *Env) []Result {
	return each(e.family(false), func(a netip.Addr) []Result { return e.address(ctx, a) })
}}

// address tries an address by HTTP and by TLS; by names that nobody registered, too.
func (e *Env) address(ctx context.Context, a netip.Addr) []Result {
	plain, secure := netip.AddrPortFrom(a, e.ports.HTTP).String(), netip.AddrPortFrom(a, e.ports.HTTPS).String()
	tries := []func() Result{
		func() Result {
			r := Result{Tried: "HTTP to " + plain, URL: siteURL("http", a.String(), e.ports.HTTP, 80)}
			if e.Proxy != nil {
				return e.pageByProxy(ctx, r, r.URL)
			}
			return e.http(ctx, r, plain, strings.TrimPrefix(r.URL, "http://"))
		},
		func() Result {
			return e.tls(ctx, Result{Tried: "TLS without a name to " + secure, URL: "tcp://" + secure}, secure, "")
		},
	}
	for _, host := range e.Hosts {
		tries = append(tries, func() Result {
			return e.tls(ctx, Result{Tried: fmt.Sprintf("TLS for %s to %s", host, secure), URL: fmt.Sprintf("tls://%s:%d", host, e.ports.HTTPS)}, secure, host)
		})
	}
	return together(tries...)
}
