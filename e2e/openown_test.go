package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// ownTunnels: who sends CONNECT to the gateway itself, past its sidecar and with its own certificate, keeps no tunnel open that is denied, alone on its connection or among others that stay.
func (o *openEnds) ownTunnels(t *testing.T) {
	o.write(t, "  rules: [{hosts: ['*.open.test'], action: Allow, name: list}]\n")
	shared := o.toGateway(t, "h2")
	var gone, stay []*talk
	for _, scheme := range []string{"tls", "tcp"} {
		gone = append(gone, o.connected(t, nil, scheme, "one.open.test"), o.connected(t, shared, scheme, "one.open.test"))
		stay = append(stay, o.connected(t, nil, scheme, "two.open.test"), o.connected(t, shared, scheme, "two.open.test"))
	}
	before, since := o.ended(t), time.Now()
	o.write(t, "  rules: [{hosts: [two.open.test], action: Allow, name: list}]\n")
	o.end(t, since, gone, stay)
	o.goOn(t, stay)
	o.counted(t, before+float64(len(gone)), o.ended) // before somebody counts those that end from here on
}

// toGateway is a connection to the gateway with the app's certificate.
func (o *openEnds) toGateway(t *testing.T, protocol string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(o.ctx, attackTimeout)
	defer cancel()
	raw, err := o.scene.World.Control.DialContext(ctx, "tcp", gatewayAddr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{protocol}, Certificates: []tls.Certificate{identityOf(t, o.scene.App.RunDir())}})
	if err := c.HandshakeContext(ctx); err != nil {
		t.Fatal(err)
	}
	return c
}

// connected talks in a CONNECT: on a connection of its own, or, of HTTP/2, on one that others share.
func (o *openEnds) connected(t *testing.T, shared net.Conn, scheme, host string) *talk {
	t.Helper()
	port := map[string]uint16{"tls": echoesTLS, "tcp": echoesTCP}[scheme]
	authority := fmt.Sprintf("%s:%d", host, port)
	k := &talk{what: fmt.Sprintf("CONNECT to %s://%s, on a connection of others: %t", scheme, authority, shared != nil)}
	if err := world.Within(o.ctx, time.Minute, func() (err error) { // the rule may not be in force yet
		if shared != nil {
			k.conn, err = openTunnel(o.ctx, o.multiplexed(t, shared), authority)
		} else {
			k.conn, err = connectOver(o.toGateway(t, "istio-http/1.1"), authority)
		}
		return err
	}); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	if scheme == "tls" {
		settings := o.app.roots.Clone()
		settings.ServerName = host
		k.conn = tls.Client(k.conn, settings)
	}
	k.in = bufio.NewReader(k.conn)
	if err := k.say(); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	return k
}

// multiplexed is HTTP/2 on a connection: the same for the same one.
func (o *openEnds) multiplexed(t *testing.T, c net.Conn) *http.ClientConn {
	t.Helper()
	if o.shared[c] == nil {
		transport := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
		transport.Protocols.SetHTTP2(true)
		client, err := transport.NewClientConn(o.ctx, "https", netip.AddrPortFrom(world.GatewayAddr, 8443).String())
		if err != nil {
			t.Fatal(err)
		}
		o.shared = map[net.Conn]*http.ClientConn{c: client}
	}
	return o.shared[c]
}

// connectOver asks for a tunnel by HTTP/1.1. Nobody speaks in it before it is there.
func connectOver(c net.Conn, authority string) (net.Conn, error) {
	_ = c.SetDeadline(time.Now().Add(attackTimeout))
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: http.MethodConnect})
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return c, err
}
