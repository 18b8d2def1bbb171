package verify

import (
	"context"
	"fmt"
)

var frontingWay = Way{Name: "fronting", About: "a registered host's address, under a name that nobody registered", Needs: "--registered HOST and --target HOST", try: func(ctx context.Context, e *Env) []Result {
	return each(e.Registered, func(front string) []Result {
		return each(e.Hosts, func(host string) []Result {
			tries := []func() Result{func() Result { return e.frontTLS(ctx, front, host) }}
			if e.Proxy == nil { // a proxy goes where the request's target says, and rewrites the Host
				tries = append(tries, func() Result { return e.frontHTTP(ctx, front, host) })
			}
			return together(tries...)
		})
	})
}}

func (e *Env) frontTLS(ctx context.Context, front, host string) Result {
	r := Result{Tried: fmt.Sprintf("TLS for %s where %s is", host, front)}
	addr, failed := e.at(ctx, r, front, e.ports.HTTPS)
	if failed != nil {
		return failed.conclude(Unclear, "%s; is it registered?", failed.Seen)
	}
	return e.tls(ctx, r, addr, host)
}

func (e *Env) frontHTTP(ctx context.Context, front, host string) Result {
	r := Result{Tried: fmt.Sprintf("HTTP for %s where %s is", host, front)}
	addr, failed := e.at(ctx, r, front, e.ports.HTTP)
	if failed != nil {
		return failed.conclude(Unclear, "%s; is it registered?", failed.Seen)
	}
	return e.http(ctx, r, addr, host)
}
