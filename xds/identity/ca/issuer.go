package ca

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// issuer is what one state of the CA's files means. It is immutable.
type issuer struct {
	key           crypto.Signer
	certificate   *x509.Certificate   // whose key signs
	intermediates []*x509.Certificate // from certificate up to but without the root; empty when certificate is a root
	roots         []*x509.Certificate // the one above certificate first
	expires       time.Time           // the earliest in the chain
}

// newIssuer checks that the parts belong together and can sign now. chain may hold anything that helps to find the
// way from certificate to a root, in any order.
func newIssuer(key crypto.Signer, certificate *x509.Certificate, chain, roots []*x509.Certificate, now time.Time) (*issuer, error) {
	if !belongs(certificate, key) {
		return nil, errors.New("the private key is not the one of the certificate")
	}
	if !certificate.IsCA || certificate.KeyUsage != 0 && certificate.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, fmt.Errorf("certificate %q may not sign others: it needs CA:TRUE and the key usage Certificate Sign", certificate.Subject)
	}
	path, err := pathToRoot(certificate, chain, roots, now)
	if err != nil {
		return nil, err
	}
	i := &issuer{key: key, certificate: certificate, intermediates: path[:len(path)-1], expires: certificate.NotAfter}
	for _, c := range path {
		if c.NotAfter.Before(i.expires) {
			i.expires = c.NotAfter
		}
	}
	i.roots = distinct(append([]*x509.Certificate{path[len(path)-1]}, roots...))
	return i, nil
}

// belongs says whether a certificate is of the key.
func belongs(certificate *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(certificate.PublicKey)
}

// pathToRoot returns the certificates from the CA's own to a root, both included.
func pathToRoot(certificate *x509.Certificate, chain, roots []*x509.Certificate, now time.Time) ([]*x509.Certificate, error) {
	if now.After(certificate.NotAfter) {
		return nil, fmt.Errorf("certificate %q expired at %s: replace it", certificate.Subject, certificate.NotAfter.UTC().Format(time.RFC3339))
	}
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(),
		CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, c := range roots {
		options.Roots.AddCert(c)
	}
	for _, c := range chain {
		options.Intermediates.AddCert(c)
	}
	paths, err := certificate.Verify(options)
	if err != nil {
		return nil, fmt.Errorf("certificate %q does not lead to a trusted root: %w", certificate.Subject, err)
	}
	shortest := slices.MinFunc(paths, func(a, b []*x509.Certificate) int { return len(a) - len(b) })
	return shortest, nil
}

// distinct drops repetitions and keeps the order.
func distinct(all []*x509.Certificate) []*x509.Certificate {
	var kept []*x509.Certificate
	for _, c := range all {
		if !slices.ContainsFunc(kept, c.Equal) {
			kept = append(kept, c)
		}
	}
	return kept
}

func (i *issuer) equal(o *issuer) bool {
	same := func(a, b *x509.Certificate) bool { return a.Equal(b) }
	return i.certificate.Equal(o.certificate) && slices.EqualFunc(i.intermediates, o.intermediates, same) &&
		slices.EqualFunc(i.roots, o.roots, same)
}

// overlaps says whether those who trusted the one before trust what this one signs.
func (i *issuer) overlaps(before *issuer) bool {
	return slices.ContainsFunc(before.roots, i.roots[0].Equal)
}
