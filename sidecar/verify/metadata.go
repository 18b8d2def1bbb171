package verify

import (
	"context"
	"net"
	"net/netip"
	"strconv"
)

// metadataServices are where clouds give instances their credentials: most of them, AWS by IPv6, Azure's host, Google by name.
var metadataServices = []string{"169.254.169.254", "fd00:ec2::254", "168.63.129.16", "metadata.google.internal"}

var metadataWay = Way{Name: "metadata", About: "the metadata services of clouds", try: func(ctx context.Context, e *Env) []Result {
	return each(e.metadata, func(service string) []Result {
		r := Result{Tried: "HTTP to " + service, URL: siteURL("http", service, e.ports.Metadata, 80)}
		if _, err := netip.ParseAddr(service); err != nil {
			return []Result{e.site(ctx, r, service, e.ports.Metadata)}
		}
		if e.Proxy != nil {
			return []Result{e.pageByProxy(ctx, r, r.URL)}
		}
		return []Result{e.http(ctx, r, net.JoinHostPort(service, strconv.Itoa(int(e.ports.Metadata))), service)}
	})
}}
