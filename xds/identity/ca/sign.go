package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// maxCSRLength bounds what is parsed for a stranger, in bytes. An RSA-4096 request has about 2 KiB.
const maxCSRLength = 32 << 10

// CSRError says what is wrong with a certificate request: the sender has to mend it.
type CSRError struct{ Reason string }

func (e *CSRError) Error() string { return "certificate request: " + e.Reason }

// Sign returns a certificate chain for the key of a CSR (PEM) and the given identity, valid for ttl or until the CA
// expires: the leaf, each intermediate, and last the trust bundle. From the CSR only the key is taken, after its
// signature has proved that the sender has it; whatever names it asks for are ignored. A CSR that is not good is a
// *CSRError.
func (c *CA) Sign(csr []byte, id identity.ID, ttl time.Duration) (chain []string, err error) {
	public, err := publicKey(csr)
	if err != nil {
		return nil, err
	}
	if err := id.Validate(); err != nil {
		return nil, fmt.Errorf("sign for %s: %w", id, err)
	}
	if id.TrustDomain != c.options.TrustDomain {
		return nil, fmt.Errorf("sign for %s: the trust domain of this mesh is %q", id, c.options.TrustDomain)
	}
	i := c.issuer.Load()
	leaf, err := i.sign(&x509.Certificate{
		URIs:        []*url.URL{id.URI()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}, public, c.options.Now(), ttl)
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", id, err)
	}
	chain = append(chain, string(pemfile.EncodeCertificates(leaf)))
	for _, intermediate := range i.intermediates {
		chain = append(chain, string(pemfile.EncodeCertificates(intermediate)))
	}
	return append(chain, string(pemfile.EncodeCertificates(i.roots...))), nil
}

// SignServer returns a chain (leaf first, without the root) for the control plane's own TLS server on hosts: DNS
// names and IP addresses. It holds no SPIFFE id and serves as no client's certificate.
func (c *CA) SignServer(public crypto.PublicKey, hosts []string, ttl time.Duration) ([]*x509.Certificate, error) {
	template := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	i := c.issuer.Load()
	leaf, err := i.sign(template, public, c.options.Now(), ttl)
	if err != nil {
		return nil, fmt.Errorf("sign for the server: %w", err)
	}
	return append([]*x509.Certificate{leaf}, i.intermediates...), nil
}

// sign completes the template: random serial, validity within the CA's own.
func (i *issuer) sign(template *x509.Certificate, public crypto.PublicKey, now time.Time, ttl time.Duration) (*x509.Certificate, error) {
	if ttl <= 0 {
		return nil, fmt.Errorf("lifetime %s: must be positive", ttl)
	}
	if !now.Before(i.expires) {
		return nil, fmt.Errorf("the CA's chain expired at %s", i.expires.UTC().Format(time.RFC3339))
	}
	template.NotBefore, template.NotAfter = now.Add(-Backdate), now.Add(ttl)
	if template.NotAfter.After(i.expires) {
		template.NotAfter = i.expires
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	if _, ok := public.(*rsa.PublicKey); ok {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, i.certificate, public, i.key) // no serial given: random
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// publicKey takes the key out of a CSR after checking that its sender holds the private part.
func publicKey(csr []byte) (crypto.PublicKey, error) {
	if len(csr) > maxCSRLength {
		return nil, &CSRError{fmt.Sprintf("%d bytes, the limit is %d", len(csr), maxCSRLength)}
	}
	block, _ := pem.Decode(csr)
	if block == nil || block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST" {
		return nil, &CSRError{"no PEM block CERTIFICATE REQUEST"}
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, &CSRError{err.Error()}
	}
	if err := acceptable(request.PublicKey); err != nil {
		return nil, &CSRError{err.Error()}
	}
	if err := request.CheckSignature(); err != nil {
		return nil, &CSRError{"the signature is not of its own key: " + err.Error()}
	}
	return request.PublicKey, nil
}

// acceptable refuses keys that are too weak, or so large that checking them is a burden.
func acceptable(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P224() {
			return errors.New("ECDSA on P-224 is too weak; use P-256")
		}
	case ed25519.PublicKey:
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < 2048 || bits > 8192 {
			return fmt.Errorf("RSA key of %d bits: want 2048 to 8192", bits)
		}
	default:
		return fmt.Errorf("key of type %T; use ECDSA on P-256", public)
	}
	return nil
}
