package story

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// origination: the app speaks plain HTTP, the outside sees TLS, from the gateway.
func origination(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	path := "/" + token()
	reply, err := s.get(ctx, s.url("http", externalHost, path))
	if err != nil {
		return err
	}
	if err := reply.must(); err != nil {
		return err
	}
	seen, err := s.sawOnce(path)
	if err != nil {
		return err
	}
	if seen.Scheme != "https" || seen.SNI != externalHost || seen.Host != externalHost {
		return fmt.Errorf("the server saw %s, want https with SNI and host %s", seen, externalHost)
	}
	if err := s.cameFrom(seen, world.GatewayAddr); err != nil {
		return err
	}
	s.show("app: curl %s → 200", s.url("http", externalHost, "/"))
	s.show("server: %s", seen)
	r, err := s.audited(ctx, s.expect(want{
		what: "the request whose TLS the gateway originated", host: externalHost, urlPath: path, status: 200,
		verdict: record.Allowed, path: record.PathGateway, reporter: record.ReporterGateway, cluster: "outbound|",
	}))
	if err != nil {
		return err
	}
	s.show("%s", line(r))
	return nil
}

// passthrough: the app's own TLS reaches the server, and the app verifies the server's certificate.
func passthrough(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	path := "/" + token()
	reply, err := s.get(ctx, s.url("https", externalHost, path))
	if err != nil {
		return err
	}
	if err := reply.must(); err != nil {
		return err
	}
	seen, err := s.sawOnce(path)
	if err != nil {
		return err
	}
	if seen.Scheme != "https" || seen.SNI != externalHost {
		return fmt.Errorf("the server saw %s, want https with SNI %s", seen, externalHost)
	}
	if err := s.cameFrom(seen, world.GatewayAddr); err != nil {
		return err
	}
	s.show("app: curl --cacert outside-ca.pem %s → 200, certificate verified by the app", s.url("https", externalHost, "/"))
	s.show("server: %s", seen)
	r, err := s.audited(ctx, s.expect(want{
		what: "the TLS connection that was passed through", host: externalHost,
		verdict: record.Allowed, path: record.PathGateway, reporter: record.ReporterGateway, cluster: "outbound|443|",
	}))
	if err != nil {
		return err
	}
	s.show("%s", line(r))
	return nil
}

// onlyMTLS: what the app says in plain text crosses to the gateway inside mTLS only, and the gateway lets nobody in
// without a certificate.
func onlyMTLS(ctx context.Context, s *Scene) error {
	if err := s.controlUp(ctx); err != nil {
		return err
	}
	leg, err := s.World.Gateway.Capture("eth0")
	if err != nil {
		return err
	}
	inside, err := s.app.host.Capture("lo")
	if err != nil {
		return err
	}
	secret := token()
	reply, err := s.get(ctx, s.url("http", externalHost, "/"+secret))
	if err == nil {
		err = reply.must()
	}
	wire, legErr := leg.Stop()
	pod, podErr := inside.Stop()
	if err := errors.Join(err, legErr, podErr); err != nil {
		return err
	}
	crossed := wire.Between(s.app.addr, world.GatewayAddr)
	switch {
	case !pod.Contains(secret):
		return fmt.Errorf("the capture inside the pod (%d bytes) misses the request: it proves nothing", pod.Size())
	case crossed.Size() == 0:
		return errors.New("nothing crossed from the pod to the gateway")
	case crossed.Contains(secret):
		return fmt.Errorf("the request is readable among the %d bytes between pod and gateway", crossed.Size())
	}
	s.show("capture: %d bytes between pod and gateway, the request is in none; inside the pod the same capture reads it", crossed.Size())
	if err := s.gatewayShookHands(ctx); err != nil {
		return err
	}
	if err := refusesStrangers(ctx, s.World.Control); err != nil {
		return err
	}
	s.show("gateway: a client without a certificate is refused")
	return nil
}

// gatewayShookHands reads from the gateway's Envoy that TLS handshakes took place, and from the audit log whom the
// gateway verified.
func (s *Scene) gatewayShookHands(ctx context.Context) error {
	handshakes, err := s.Gateway.stat(ctx, `^listener.*ssl.handshake$`, "ssl.handshake")
	if err != nil {
		return err
	}
	if handshakes == 0 {
		return errors.New("the gateway's Envoy counts no ssl.handshake")
	}
	r, err := s.audited(ctx, want{
		what: "any request to the gateway", host: externalHost, verdict: record.Allowed, reporter: record.ReporterGateway,
	})
	if err != nil {
		return err
	}
	s.show("gateway: ssl.handshake %d, peer %s", handshakes, r.Workload.Principal)
	return nil
}

// refusesStrangers connects to the gateway's mTLS port without a client certificate.
func refusesStrangers(ctx context.Context, from *world.Host) error {
	raw, err := from.DialContext(ctx, "tcp", netip.AddrPortFrom(world.GatewayAddr, 8443).String())
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	// The gateway's certificate is not the question here, its demand for ours is.
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err := c.HandshakeContext(ctx); err != nil {
		return nil
	}
	// With TLS 1.3 the refusal comes after the client's side of the handshake is done.
	n, err := c.Read(make([]byte, 1))
	if n > 0 || err == nil {
		return errors.New("the gateway answers a client that has no certificate")
	}
	if !strings.Contains(err.Error(), "certificate") && !strings.Contains(err.Error(), "tls") {
		return fmt.Errorf("the gateway closed without a demand for a certificate: %w", err)
	}
	return nil
}

// sawOnce gives what the outside saw of the request with this path.
func (s *Scene) sawOnce(path string) (outside.Sighting, error) {
	seen := s.Outside.Sightings(path)
	if len(seen) != 1 {
		return outside.Sighting{}, fmt.Errorf("the outside saw the request %d times, want once", len(seen))
	}
	return seen[0], nil
}

// cameFrom checks the address that the outside saw; on loopback all addresses are one.
func (s *Scene) cameFrom(seen outside.Sighting, addr netip.Addr) error {
	if s.Namespaced() && seen.Peer.Addr() != addr {
		return fmt.Errorf("the server saw %s, want a connection from %s", seen, addr)
	}
	return nil
}
