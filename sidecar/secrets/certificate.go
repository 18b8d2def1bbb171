package secrets

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// certificate is a workload's certificate with its key. It is immutable.
type certificate struct {
	chain    []byte // PEM: leaf, intermediates; without the root
	key      []byte // PEM
	pair     tls.Certificate
	leaf     *x509.Certificate
	obtained time.Time // the lifetime runs from here: NotBefore is backdated
}

// newCertificate checks that key and chain belong together.
func newCertificate(chain, key []byte, obtained time.Time) (*certificate, error) {
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, err
	}
	return &certificate{chain: chain, key: key, pair: pair, leaf: pair.Leaf, obtained: obtained}, nil
}

func (c *certificate) expired(now time.Time) bool { return !now.Before(c.leaf.NotAfter) }

// lifetime is how long the certificate was valid when it was obtained.
func (c *certificate) lifetime() time.Duration { return c.leaf.NotAfter.Sub(c.obtained) }

// spiffeID is the one URI name of the leaf, "" when it has none.
func (c *certificate) spiffeID() string {
	if len(c.leaf.URIs) != 1 {
		return ""
	}
	return c.leaf.URIs[0].String()
}

// checkAccount reports whether the certificate is of the service account that the agent runs for. An empty
// namespace checks nothing.
func (c *certificate) checkAccount(namespace, serviceAccount string) error {
	want := "/ns/" + namespace + "/sa/" + serviceAccount
	if namespace == "" || strings.HasSuffix(c.spiffeID(), want) {
		return nil
	}
	return fmt.Errorf("certificate of %q, but this agent runs for spiffe://TRUST_DOMAIN%s: compare the token with --namespace and --service-account",
		c.spiffeID(), want)
}

// trustedBy reports whether the chain leads to one of the roots now.
func (c *certificate) trustedBy(roots []*x509.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		Roots: pool(roots), Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, der := range c.pair.Certificate[1:] {
		if intermediate, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(intermediate)
		}
	}
	_, err := c.leaf.Verify(options)
	return err
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}

// parseCertificates reads every certificate of a PEM text, at least one.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate in PEM form")
	}
	return all, nil
}

// encodeCertificates writes certificates one after the other.
func encodeCertificates(all []*x509.Certificate) []byte {
	var text []byte
	for _, c := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return text
}

// union is a, then what b has beside it, in order, once each.
func union(a, b []*x509.Certificate) []*x509.Certificate {
	var all []*x509.Certificate
	seen := map[string]bool{}
	for _, list := range [][]*x509.Certificate{a, b} {
		for _, c := range list {
			if !seen[string(c.Raw)] {
				seen[string(c.Raw)] = true
				all = append(all, c)
			}
		}
	}
	return all
}
