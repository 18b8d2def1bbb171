package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

func TestCertificate(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	uris := func(all ...string) *x509.Certificate {
		c := &x509.Certificate{NotAfter: now.Add(time.Hour)}
		for _, s := range all {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, u)
		}
		return c
	}
	ca := uris("spiffe://cluster.local/ns/a/sa/alice")
	ca.IsCA = true
	expired := uris("spiffe://cluster.local/ns/a/sa/alice")
	expired.NotAfter = now.Add(-time.Second)
	for _, c := range []struct {
		name string
		leaf *x509.Certificate
		err  string
	}{
		{"good", uris("spiffe://cluster.local/ns/a/sa/alice"), ""},
		{"another trust domain", uris("spiffe://other/ns/a/sa/alice"), `"other"`},
		{"no name", uris(), "0 URI names"},
		{"two names", uris("spiffe://cluster.local/ns/a/sa/alice", "spiffe://cluster.local/ns/b/sa/bob"), "2 URI names"},
		{"not a workload", uris("spiffe://cluster.local/controller"), "want spiffe://"},
		{"escaped slash", uris("spiffe://cluster.local/ns/a%2fsa/sa/alice"), "namespace"},
		{"a CA", ca, "CA's"},
		{"expired since the handshake", expired, "2026-05-01T11:59:59Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			info := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c.leaf}}}}
			ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: info})
			id, err := Certificate{TrustDomain: "cluster.local", Now: func() time.Time { return now }}.Authenticate(ctx)
			if c.err == "" {
				if err != nil || id != alice {
					t.Errorf("Authenticate = %v, %v", id, err)
				}
				return
			}
			var rejected *Rejected
			if !errors.As(err, &rejected) || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want a rejection with %q", err, c.err)
			}
		})
	}
}

// A certificate that was sent but not verified proves nothing.
func TestCertificateTrustsOnlyVerifiedChains(t *testing.T) {
	u, _ := url.Parse("spiffe://cluster.local/ns/a/sa/alice")
	leaf := &x509.Certificate{URIs: []*url.URL{u}, NotAfter: time.Now().Add(time.Hour)}
	for name, p := range map[string]*peer.Peer{
		"plaintext":  {},
		"unverified": {AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := Certificate{TrustDomain: "cluster.local"}.Authenticate(peer.NewContext(t.Context(), p))
			if !errors.Is(err, ErrNoCredentials) {
				t.Errorf("Authenticate = %v, %v; want ErrNoCredentials", id, err)
			}
		})
	}
}
