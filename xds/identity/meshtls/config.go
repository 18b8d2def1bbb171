package meshtls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
)

// Source gives what one side of a connection proves itself and verifies the other with, as of now.
type Source interface {
	Certificate() (*tls.Certificate, error)
	Roots() *x509.CertPool
}

// Client is the configuration of connections to one workload, wherever it is reached.
func Client(s Source, server identity.ID) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		// Names are not what a workload proves; VerifyConnection does all of it, by identity.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			id, err := verify(state.PeerCertificates, s.Roots(), x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			if id != server {
				return fmt.Errorf("the server is %s, not %s", id, server)
			}
			return nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.Certificate() },
	}
}

// ClientOfName is the configuration of connections to a server that the mesh's CA vouches for by its name in DNS, wherever it is reached:
// controllers.
func ClientOfName(s Source, name string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		ServerName: name,
		// The roots are those of the moment, which RootCAs would not be.
		InsecureSkipVerify: true, //nolint:gosec // see VerifyConnection
		VerifyConnection: func(state tls.ConnectionState) error {
			_, err := verifyChain(state.PeerCertificates, x509.VerifyOptions{Roots: s.Roots(), DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.Certificate() },
	}
}

// Server is the configuration of a server whose clients must show a certificate of the mesh. Who of them may do what
// is for identity.Guard and those behind it.
func Server(s Source) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			certificate, err := s.Certificate()
			if err != nil {
				return nil, err
			}
			return &tls.Config{
				MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
				Certificates: []tls.Certificate{*certificate},
				ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: s.Roots(),
				SessionTicketsDisabled: true, // every connection shows its certificate anew
			}, nil
		},
	}
}

// verify checks a chain against the roots and gives the identity in its leaf.
func verify(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage) (identity.ID, error) {
	leaf, err := verifyChain(chain, x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return identity.ID{}, err
	}
	id, err := identity.OfCertificate(leaf)
	if err != nil {
		return identity.ID{}, fmt.Errorf("the peer's certificate: %w", err)
	}
	return id, nil
}

// verifyChain checks a chain, as of now, and gives its leaf.
func verifyChain(chain []*x509.Certificate, o x509.VerifyOptions) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("the peer shows no certificate")
	}
	o.Intermediates, o.CurrentTime = x509.NewCertPool(), time.Now()
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return chain[0], err
}
