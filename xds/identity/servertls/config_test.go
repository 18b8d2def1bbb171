package servertls

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func authority(t *testing.T, o ca.Options) *ca.CA {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	a, err := ca.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// handshake connects client to server over a real socket and returns what the client saw.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = tls.Server(conn, server).HandshakeContext(t.Context())
	}()
	defer func() { <-done }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := tls.Client(conn, client)
	err = c.HandshakeContext(t.Context())
	return c.ConnectionState(), err
}

func rootsOf(a *ca.CA) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.BundlePEM())
	return pool
}

func TestHosts(t *testing.T) {
	a := authority(t, ca.Options{})
	config, err := New(Options{CA: a, Hosts: Hosts("sallyport.example.org", "192.0.2.7", "localhost", "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		"localhost", "127.0.0.1", "::1", "sallyport.istio-system.svc", "istiod.istio-system.svc", "sallyport.example.org", "192.0.2.7",
	} {
		state, err := handshake(t, config, &tls.Config{RootCAs: rootsOf(a), ServerName: host, NextProtos: []string{"h2"}})
		if err != nil {
			t.Errorf("%s: %v", host, err)
		} else if state.NegotiatedProtocol != "h2" {
			t.Errorf("%s: protocol %q", host, state.NegotiatedProtocol)
		}
	}
	if _, err := handshake(t, config, &tls.Config{RootCAs: rootsOf(a), ServerName: "example.org"}); err == nil {
		t.Error("a name that is not the controller's was accepted")
	}
	if _, err := handshake(t, config, &tls.Config{RootCAs: rootsOf(a), ServerName: "localhost", MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}

func TestHostsRefused(t *testing.T) {
	a := authority(t, ca.Options{})
	for _, hosts := range [][]string{nil, {""}, {"*"}, {"a b"}, {"https://localhost"}, {"localhost:15012"}, {strings.Repeat("a.", 200)}} {
		if _, err := New(Options{CA: a, Hosts: hosts}); err == nil {
			t.Errorf("New with hosts %q succeeded", hosts)
		}
	}
}

// The certificate is replaced at half of its lifetime, and at once when the roots change.
func TestRotation(t *testing.T) {
	hand := clock.At(time.Now())
	data := t.TempDir()
	a := authority(t, ca.Options{DataDir: data, Now: hand.Now})
	config, err := New(Options{CA: a, Hosts: []string{"localhost"}, TTL: time.Hour, Now: hand.Now})
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		t.Helper()
		state, err := handshake(t, config, &tls.Config{RootCAs: rootsOf(a), ServerName: "localhost", Time: hand.Now})
		if err != nil {
			t.Fatal(err)
		}
		return state.PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	hand.Advance(29 * time.Minute)
	if s := serial(); s != first {
		t.Error("replaced before half of its lifetime")
	}
	hand.Advance(2 * time.Minute)
	second := serial()
	if second == first {
		t.Error("not replaced after half of its lifetime")
	}
	hand.Advance(10 * time.Hour)
	third := serial() // nobody called for hours
	if third == second {
		t.Error("an expired certificate was served")
	}
	roots := filepath.Join(data, "ca", "roots")
	if err := os.MkdirAll(roots, 0o700); err != nil {
		t.Fatal(err)
	}
	other := authority(t, ca.Options{})
	if err := os.WriteFile(filepath.Join(roots, "next.pem"), other.BundlePEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Reload(); err != nil {
		t.Fatal(err)
	}
	if serial() == third {
		t.Error("not replaced after the roots changed")
	}
}
