package verify

import (
	"context"
	"fmt"
	"net"
)

var nameWay = Way{Name: "name", About: "a host that nobody registered, by its name", Needs: "--target HOST", try: tryNames}

func tryNames(ctx context.Context, e *Env) []Result {
	return each(e.Hosts, func(host string) []Result {
		return together(
			func() Result {
				return e.site(ctx, Result{Tried: "HTTP to " + host, URL: siteURL("http", host, e.ports.HTTP, 80)}, host, e.ports.HTTP)
			},
			func() Result {
				r := Result{Tried: "TLS to " + host, URL: siteURL("https", host, e.ports.HTTPS, 443)}
				addr, failed := e.at(ctx, r, host, e.ports.HTTPS)
				if failed != nil {
					return *failed
				}
				return e.tls(ctx, r, addr, host)
			},
		)
	})
}

// site asks a host for a page over plain HTTP, by the proxy if there is one.
func (e *Env) site(ctx context.Context, r Result, host string, port uint16) Result {
	if e.Proxy != nil {
		return e.pageByProxy(ctx, r, r.URL)
	}
	addr, failed := e.at(ctx, r, host, port)
	if failed != nil {
		return *failed
	}
	return e.http(ctx, r, addr, host)
}

// siteURL writes the port where it is not the scheme's.
func siteURL(scheme, host string, port, usual uint16) string {
	if port == usual {
		if ip := net.ParseIP(host); ip != nil && ip.To4() == nil {
			host = "[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, fmt.Sprint(port))
}
