package verify

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
)

var gatewayWay = Way{Name: "gateway", About: "the egress gateway, without a certificate, for a name that nobody registered", Needs: "--gateway HOST:PORT and --target HOST", Direct: true, try: func(ctx context.Context, e *Env) []Result {
	return each(e.Gateways, func(gateway string) []Result {
		return each(e.Hosts, func(host string) []Result {
			return together(
				func() Result { return e.gatewayHost(ctx, gateway, host) },
				func() Result { return e.gatewaySNI(ctx, gateway, host) },
			)
		})
	})
}}

// gatewayHost says the name in the Host of a plain request.
func (e *Env) gatewayHost(ctx context.Context, gateway, host string) Result {
	r := Result{Tried: fmt.Sprintf("HTTP for %s to the gateway %s", host, gateway)}
	c, failed := e.dialGateway(ctx, r, gateway)
	if failed != nil {
		return *failed
	}
	defer func() { _ = c.Close() }()
	return r.page(e, c, host).judgeInside()
}

// gatewaySNI says the name where a sidecar does, in the TLS name of a tunnel, and shows no certificate.
func (e *Env) gatewaySNI(ctx context.Context, gateway, host string) Result {
	r := Result{Tried: fmt.Sprintf("a tunnel for %s to the gateway %s", host, gateway)}
	c, failed := e.dialGateway(ctx, r, gateway)
	if failed != nil {
		return *failed
	}
	defer func() { _ = c.Close() }()
	r.Taken = c.taken
	tunnel := tls.Client(c, &tls.Config{
		ServerName: fmt.Sprintf("outbound_.%d_._.%s", e.ports.HTTPS, host), NextProtos: []string{"sallyport-tls"},
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, //nolint:gosec // G402: nothing is said to the other end
	})
	err := tunnel.HandshakeContext(ctx)
	if err == nil { // in TLS 1.3 a certificate is asked for afterwards
		inside := tls.Client(tunnel, &tls.Config{ServerName: host, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}) //nolint:gosec // likewise
		if err = inside.HandshakeContext(ctx); err == nil {
			return r.conclude(Open, "a server shook hands through the tunnel%s", describeServer(inside.ConnectionState()))
		}
	}
	if timedOut(err) {
		return r.judgeSilence(c, err, e).judgeInside()
	}
	return r.conclude(Closed, "the tunnel is refused: %s", cause(err))
}

func (e *Env) dialGateway(ctx context.Context, r Result, gateway string) (*conn, *Result) {
	host, portText, err := net.SplitHostPort(gateway)
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || portErr != nil {
		r = r.conclude(Unclear, "%q is not HOST:PORT", gateway)
		return nil, &r
	}
	addr, failed := e.at(ctx, r, host, uint16(port))
	if failed != nil {
		return nil, failed
	}
	c, err := e.dial(ctx, addr)
	if err != nil {
		r = r.judgeDial(err, e.Wait)
		return nil, &r
	}
	return c, nil
}

// judgeInside mends the verdict about a part of the mesh: it may be connected to, and nobody behind it is reached by that.
func (r Result) judgeInside() Result {
	switch {
	case r.Verdict == Unclear && r.Taken != "":
		r.Verdict = Closed
	case r.Verdict == Open && r.Seen == connectedOnly:
		r.Verdict, r.Seen = Closed, "connected, and nothing came back"
	}
	return r
}
