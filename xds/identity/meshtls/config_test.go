package meshtls_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
)

func authority(t *testing.T) *ca.CA {
	t.Helper()
	c, err := ca.Open(ca.Options{DataDir: t.TempDir(), TrustDomain: "cluster.local", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func account(name string) identity.ID {
	return identity.ID{TrustDomain: "cluster.local", Namespace: "istio-system", ServiceAccount: name}
}

// TestMutual: both sides are who they say, or nothing is said.
func TestMutual(t *testing.T) {
	ours, theirs := authority(t), authority(t)
	server := meshtls.NewOwn(ours, account("audit"))
	for _, tt := range []struct {
		name   string
		client *tls.Config
		want   string // part of the error of either side
	}{
		{"the one that is meant", meshtls.Client(meshtls.NewOwn(ours, account("controller")), account("audit")), ""},
		{"another workload answers", meshtls.Client(meshtls.NewOwn(ours, account("controller")), account("other")), "is spiffe://cluster.local/ns/istio-system/sa/audit, not"},
		{"the client is of another mesh", meshtls.Client(mixed{meshtls.NewOwn(theirs, account("controller")), meshtls.NewOwn(ours, account("x"))}, account("audit")), "certificate"},
		{"the server is of another mesh", meshtls.Client(meshtls.NewOwn(theirs, account("controller")), account("audit")), "unknown authority"},
		{"the client shows nothing", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}, "certificate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := meet(tt.client, meshtls.Server(server))
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// mixed shows one source's certificate and trusts another's roots.
type mixed struct {
	*meshtls.Own
	trusts *meshtls.Own
}

func (m mixed) Roots() *x509.CertPool { return m.trusts.Roots() }

// meet lets a client and a server of these configurations exchange a byte.
func meet(client, server *tls.Config) error {
	a, b := net.Pipe()
	answered := make(chan error, 1)
	go func() {
		s := tls.Server(b, server)
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		_ = b.Close()
		answered <- err
	}()
	c := tls.Client(a, client)
	err := c.Handshake()
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	_ = a.Close()
	return errors.Join(err, <-answered)
}
