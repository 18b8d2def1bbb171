package e2e

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// plain opens a tunnel as sidecars do: over mTLS, for what the TLS name says.
func (a *attack) plain(t *testing.T, certificate tls.Certificate, alpn, name string) (net.Conn, error) {
	t.Helper()
	raw, err := a.scene.World.Control.DialContext(t.Context(), "tcp", gatewayAddr)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, ServerName: name, NextProtos: []string{alpn}, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate},
	})
	if err := errors.Join(c.SetDeadline(time.Now().Add(attackTimeout)), c.HandshakeContext(t.Context())); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}

// helloIn shakes hands with a server inside of a tunnel.
func (a *attack) helloIn(t *testing.T, certificate tls.Certificate, alpn, name, sni string) error {
	t.Helper()
	c, err := a.plain(t, certificate, alpn, name)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return tls.Client(c, &tls.Config{ServerName: sni, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
}

// plainTunnels tries with plain tunnels what others try with CONNECT.
func (a *attack) plainTunnels(t *testing.T) {
	if err := a.helloIn(t, a.app, "sallyport-tls", "outbound_.443_._.external.com", "external.com"); err != nil {
		t.Fatalf("a good one: %v", err)
	}
	a.plainNames(t)
	a.plainInside(t)
	a.plainClients(t)
}

// plainNames: a tunnel's name means a registered host and port, or nothing.
func (a *attack) plainNames(t *testing.T) {
	before := a.scene.Outside.ConnectionsTo(world.OutsideAddrs[1])
	for _, name := range []string{
		"outbound_.443_._.hidden.test", "outbound_.0443_._.external.com", "outbound_.444_._.external.com", "outbound_._._.external.com",
		"outbound_.443_._.external.com:443", "outbound_.443_._.user@external.com", "outbound_.443_._.", "outbound_.443_.external.com", "external.com",
		"external.com:443", "outbound_.443_._.*.wild.test", "outbound_.443_._..wild.test", "outbound_.443_._.wild.test", "outbound_.8080_._.headers.test",
		"outbound_.443_.istio-system_.hidden.test", "outbound_.443_._.BlackHoleCluster", "outbound_.443_.~127.0.0.1:15000_.external.com.evil.test",
		strings.Repeat("a", 200) + ".test", "decide-egress", "ask",
	} {
		for _, alpn := range []string{"sallyport-tls", "sallyport-tcp"} {
			if err := a.helloIn(t, a.app, alpn, name, "external.com"); err == nil {
				t.Errorf("%s: a tunnel named %q was taken", alpn, name)
			}
		}
	}
	r := a.recorded(t, "hidden.test", func(r record.Record) bool {
		return r.Verdict == record.Denied && r.Reason == "not registered" && r.Class == record.Network && r.Status == 0
	})
	if r.Workload.Principal != appID || r.Reporter != record.ReporterGateway || r.Authority != "hidden.test:443" {
		t.Errorf("recorded: %+v", r)
	}
	if n := a.resolved("hidden.test"); n > 0 {
		t.Errorf("an unregistered name was resolved %d times", n)
	}
	if n := a.scene.Outside.ConnectionsTo(world.OutsideAddrs[1]) - before; n > 0 {
		t.Errorf("%d connections came to where the other names are", n)
	}
}

// plainInside: what is inside of a tunnel for a TLS port is TLS, for that host.
func (a *attack) plainInside(t *testing.T) {
	for _, c := range []struct{ name, sni string }{
		{"external.com", "hidden.test"}, {"external.com", "b.wild.test"}, {"external.com", "external.co"}, {"external.com", "com"},
		{"a.wild.test", "b.wild.test"}, {"a.wild.test", "hidden.test"}, {"a.wild.test", ""},
	} {
		if err := a.helloIn(t, a.app, "sallyport-tls", "outbound_.443_._."+c.name, c.sni); err == nil {
			t.Errorf("%s with the name %q inside: a server answered", c.name, c.sni)
		}
		a.recorded(t, c.name, func(r record.Record) bool {
			return r.Verdict == record.Denied && r.SNI == c.sni && strings.Contains(r.Reason, "is not the host")
		})
	}
	for _, name := range []string{"hidden.test", "b.wild.test", "external.co", "com"} {
		if n := a.resolved(name); n > 0 {
			t.Errorf("%s was only said inside, and was resolved %d times", name, n)
		}
	}
	// nobody looks at what is said to be TCP, and what is registered as TLS is not that
	for _, alpn := range []string{"sallyport-tls", "sallyport-tcp"} {
		c, err := a.plain(t, a.app, alpn, "outbound_.443_._.external.com")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: external.com\r\n\r\n")
		if n, _ := io.Copy(io.Discard, c); n > 0 {
			t.Errorf("%s: %d bytes came back for what is not TLS", alpn, n)
		}
		_ = c.Close()
	}
	if err := a.helloIn(t, a.app, "sallyport-tcp", "outbound_.443_._.external.com", "hidden.test"); err == nil {
		t.Error("a TLS port's tunnel that is said to be TCP was taken")
	}
}

// plainClients: who may use a host is who the certificate says, whatever the tunnel's name claims.
func (a *attack) plainClients(t *testing.T) {
	if err := a.helloIn(t, a.mesh.issue(t, "spiffe://cluster.local/ns/team-a/sa/any", time.Hour), "sallyport-tls", "outbound_.443_._.team.test", "team.test"); err != nil {
		t.Logf("for whom it is exported to: %v", err) // where it leads nobody answers
	}
	for what, certificate := range map[string]tls.Certificate{
		"another namespace":     a.app,
		"a longer namespace":    a.mesh.issue(t, "spiffe://cluster.local/ns/team-ab/sa/any", time.Hour),
		"a namespace elsewhere": a.mesh.issue(t, "spiffe://cluster.local/ns/x/sa/ns/team-a/sa", time.Hour),
		"another trust domain":  a.mesh.issue(t, "spiffe://evil.test/ns/team-a/sa/any", time.Hour),
	} {
		for _, subset := range []string{"", "team-a", "team-a~203.0.113.10:443"} {
			if err := a.helloIn(t, certificate, "sallyport-tls", "outbound_.443_."+subset+"_.team.test", "team.test"); err == nil {
				t.Errorf("%s, as %q: it was let in", what, subset)
			}
		}
	}
	r := a.recorded(t, "team.test", func(r record.Record) bool {
		return r.Verdict == record.Denied && r.Workload.Principal == appID && r.Route == "not_exported"
	})
	if !strings.Contains(r.Reason, "not exported") || r.DecidedBy.Name == "" {
		t.Errorf("recorded: %+v", r)
	}
}
