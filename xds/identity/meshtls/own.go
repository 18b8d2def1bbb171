package meshtls

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
)

// Signer is the part of the mesh CA that is needed here.
type Signer interface {
	Sign(csr []byte, id identity.ID, ttl time.Duration) (chain []string, err error)
	Bundle() []*x509.Certificate
}

// ownTTL is the lifetime of a certificate that the holder of the CA makes for itself.
const ownTTL = 24 * time.Hour

// Own is the Source of whoever holds the CA.
type Own struct {
	ca Signer
	id identity.ID

	mutex   sync.Mutex
	current *tls.Certificate
	renewAt time.Time
	roots   []*x509.Certificate // that current was made with
}

// NewOwn makes a Source with that identity; its first certificate is made when it is asked for.
func NewOwn(ca Signer, id identity.ID) *Own { return &Own{ca: ca, id: id} }

// Roots implements Source.
func (o *Own) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, root := range o.ca.Bundle() {
		pool.AddCert(root)
	}
	return pool
}

// Certificate implements Source. It is made anew after half of its lifetime, and when the roots changed; should that
// fail, the old one goes on while it holds.
func (o *Own) Certificate() (*tls.Certificate, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	now, roots := time.Now(), o.ca.Bundle()
	if o.current != nil && now.Before(o.renewAt) && slices.EqualFunc(o.roots, roots, (*x509.Certificate).Equal) {
		return o.current, nil
	}
	next, err := o.make()
	if err != nil {
		if o.current != nil && now.Before(o.current.Leaf.NotAfter) {
			return o.current, nil
		}
		return nil, err
	}
	o.current, o.roots, o.renewAt = next, roots, now.Add(next.Leaf.NotAfter.Sub(now)/2)
	return next, nil
}

func (o *Own) make() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("own certificate: %w", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, fmt.Errorf("own certificate: %w", err)
	}
	chain, err := o.ca.Sign(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), o.id, ownTTL)
	if err != nil {
		return nil, fmt.Errorf("own certificate: %w", err)
	}
	certificate := &tls.Certificate{PrivateKey: key}
	for _, text := range chain[:len(chain)-1] { // the last is the bundle
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return nil, fmt.Errorf("own certificate: the CA's answer is no PEM")
		}
		certificate.Certificate = append(certificate.Certificate, block.Bytes)
	}
	if certificate.Leaf, err = x509.ParseCertificate(certificate.Certificate[0]); err != nil {
		return nil, fmt.Errorf("own certificate: %w", err)
	}
	return certificate, nil
}
